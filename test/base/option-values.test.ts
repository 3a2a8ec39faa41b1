import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBusinessApi, defineService, Refusal } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createMetrics } from '../../lib/metrics.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createSettingsPage } from '../../lib/settings-page.ts'
import { createDeliveryLoop, createPublicLookup, createWebhookSender } from '../../lib/webhooks.ts'

// An option of the wrong type is named by the error, whatever its value is, and the value may be a misplaced secret.

const SECRET = 'whsec_do_not_repeat_this_one'
const store = createMemoryStore()
const sender = createWebhookSender()
const settings = createDeveloperSettings(store)

/** Factories with the names of options that are neither objects, lists nor secrets. */
const FACTORIES: readonly (readonly [create: (options: never) => unknown, names: readonly string[]])[] = [
  [
    (options) => createBusinessApi(store, options),
    [
      'basePath',
      'trailingSlash',
      'maxBodyBytes',
      'onError',
      'onRequest',
      'peerAddress',
      'requestLog',
      'clock',
    ],
  ],
  [(options) => defineService(options), ['keyPrefix', 'headerPrefix', 'scopes', 'name']],
  [(options) => createPostgresStore('postgres://localhost', options), ['statementTimeoutMs', 'prepare']],
  [(options) => createPlatform(store, options), ['clock', 'ids', 'traceparent']],
  [(options) => createDeveloperSettings(store, options), ['maxApiKeys', 'lookup', 'allowHttp']],
  [
    (options) => createDeliveryLoop(store, sender, options),
    ['concurrency', 'leaseMs', 'retentionMs', 'markOverdue', 'onNotice', 'deliveryNotices'],
  ],
  [(options) => createWebhookSender(options), ['timeoutMs', 'userAgent', 'allowHttp']],
  [(options) => createPublicLookup(options), ['timeoutMs']],
  [
    (options) => createSettingsPage(settings, Object.assign({ authorize: () => null }, options)),
    ['authorize', 'basePath', 'api', 'layout', 'stylesheet', 'frameAncestors', 'origins', 'onError', 'clock'],
  ],
  [(options) => createMemoryStore(options), ['clock', 'maxEventBytes']],
  [(options) => createMetrics(store, options), ['loop', 'countQueue', 'maxAgeMs']],
]

function oddValues(): readonly unknown[] {
  const cyclic: unknown[] = []
  cyclic.push(cyclic)
  const bare = Object.create(null)
  return [
    null,
    5n,
    Symbol(SECRET),
    [SECRET],
    [[SECRET]],
    [Symbol(SECRET)],
    cyclic,
    bare,
    SECRET,
    `${SECRET}\n`,
  ]
}

test("an option of the wrong type is named without a longer string's or an object's content", () => {
  for (const [create, names] of FACTORIES) {
    for (const name of names) {
      for (const value of oddValues()) {
        // A string of visible characters is a service's name and a sender's user agent.
        if (value === SECRET && ['name', 'userAgent'].includes(name)) continue
        assert.throws(
          () => create({ [name]: value } as never),
          (error: Error) => {
            assert.match(error.name, /^(Type|Range)Error$/)
            assert.match(error.message, new RegExp(`^Option '${name}' must `), `${name}: ${typeof value}`)
            assert.doesNotMatch(error.message, /do_not_repeat/)
            return true
          },
          `${name} of ${Array.isArray(value) ? 'a list' : typeof value}`,
        )
      }
    }
  }
})

test('short values are shown as they are', () => {
  const refused: readonly (readonly [value: unknown, shown: string])[] = [
    ['false', "'false'"],
    ['x'.repeat(21), 'a string of 21 characters'],
    [0, '0'],
    [5n, '5n'],
    [null, 'null'],
    [{}, 'an object'],
    [() => true, 'a function'],
  ]
  for (const [value, shown] of refused) {
    assert.throws(
      () => createWebhookSender({ allowHttp: value } as never),
      (error: Error) =>
        error.message === `Option 'allowHttp' must be true or false: current value is ${shown}`,
    )
  }
})

test("a service's scopes and a request log's share must have the right type", () => {
  assert.throws(() => defineService({ scopes: [['bookings:read']] } as never), /Option 'scopes' must/)
  for (const share of [null, '0.5', true, [0.5]]) {
    assert.throws(
      () => createBusinessApi(store, { requestLog: { share } } as never),
      /Option 'requestLog' must/,
    )
  }
})

test('a refusal names a status that is no status', () => {
  for (const status of oddValues()) {
    assert.throws(() => new Refusal(status as never, 'No'), {
      name: 'RangeError',
      message: /^Cannot refuse a request because (?!.*repeat).* is not a status from 400 to 599$/,
    })
  }
})
