import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiClient, receiveWebhook as receiveFetched } from '../../lib/client.ts'
import {
  createBusinessApi,
  createIds,
  defineEvent,
  defineRoute,
  defineService,
  page,
  Refusal,
  readPage,
  withJsonSchema,
} from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createMetrics } from '../../lib/metrics.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, slotOf } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createSettingsPage } from '../../lib/settings-page.ts'
import { captureWebhooks, createFakeClock, waitForDelivery } from '../../lib/testing.ts'
import {
  createDeliveryLoop,
  createPublicLookup,
  createWebhookSender,
  receiveWebhook,
  verifyWebhook,
} from '../../lib/webhooks.ts'

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
      'traceparent',
      'info.version',
      'info.contact',
      'info.license',
      'info.termsOfService',
      'info.contact.email',
      'info.license.name',
      'rateLimit.key',
    ],
  ],
  [(options) => defineService(options), ['keyPrefix', 'headerPrefix', 'scopes', 'name', 'baseUrl', 'events']],
  [
    (options) => createPostgresStore('postgres://localhost', options),
    ['statementTimeoutMs', 'prepare', 'maxConnections', 'service'],
  ],
  [(options) => createPlatform(store, options), ['clock', 'ids', 'traceparent', 'currencyDecimals']],
  [
    (options) => createDeveloperSettings(store, options),
    ['maxApiKeys', 'lookup', 'allowHttp', 'sender', 'refuseAddresses', 'secretKeys'],
  ],
  [
    (options) => createDeliveryLoop(store, sender, options),
    [
      'concurrency',
      'leaseMs',
      'retentionMs',
      'markOverdue',
      'onNotice',
      'deliveryNotices',
      'installation',
      'secretKeys',
    ],
  ],
  [
    (options) => createWebhookSender(options),
    ['timeoutMs', 'userAgent', 'allowHttp', 'refuseAddresses', 'ca'],
  ],
  [(options) => createPublicLookup(options), ['timeoutMs', 'servers']],
  [
    (options) => createSettingsPage(settings, Object.assign({ authorize: () => null }, options)),
    [
      'authorize',
      'basePath',
      'api',
      'layout',
      'stylesheet',
      'frameAncestors',
      'origins',
      'onError',
      'clock',
      'texts',
      'theme.font',
      'theme.radius',
      'theme.light.text',
    ],
  ],
  [(options) => createMemoryStore(options), ['clock', 'maxEventBytes', 'service']],
  [(options) => createMetrics(store, options), ['loop', 'countQueue', 'maxAgeMs', 'meter']],
  [
    (options) => createApiClient(Object.assign({ url: 'http://x', key: 'k' }, options)),
    ['url', 'timeoutMs', 'signal', 'fetch'],
  ],
  [(options) => verifyWebhook('{}', 't=1,v1=00', 'whsec_x', options), ['toleranceSeconds', 'clock']],
]

/** Options that can be any visible characters. */
const VISIBLE = new Set(['name', 'userAgent', 'installation'])
/** Options that can have white space. */
const TEXTS = new Set([
  'theme.font',
  'info.version',
  'info.termsOfService',
  'info.contact.email',
  'info.license.name',
])
/** Options that can be an object without fields. */
const PLAIN_OBJECTS = new Set(['info.contact', 'currencyDecimals', 'texts', 'service'])

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === null
}

/** Returns `{ a: { b: value } }` for the name `a.b`. */
function nest(name: string, value: unknown): unknown {
  return name.split('.').reduceRight((inner, step) => ({ [step]: inner }), value)
}

/** Checks that an error names an argument, and has neither the secret nor the engine's words. */
function isNaming(subject: string): (error: Error) => boolean {
  return ({ name, message }) => {
    assert.match(name, /^(Type|Range)Error$/)
    assert.ok(message.startsWith(subject), message)
    assert.doesNotMatch(
      message,
      /do_not_repeat|reading '|not a function|not iterable|Cannot (?:convert|read prop)/,
    )
    return true
  }
}

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
        if (value === SECRET && VISIBLE.has(name)) continue
        if (typeof value === 'string' && TEXTS.has(name)) continue
        if (PLAIN_OBJECTS.has(name) && isEmptyObject(value)) continue
        assert.throws(
          () => create(nest(name, value) as never),
          isNaming(`Option '${name}`),
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

/** Functions with the start of the message about an argument that isn't what the function needs. */
const ARGUMENTS: readonly (readonly [subject: string, call: (given: never) => unknown])[] = [
  ['Cannot use the store because it ', (given) => createBusinessApi(given)],
  ['Cannot use the store because it ', (given) => createDeveloperSettings(given)],
  ['Cannot use the store because it ', (given) => createDeliveryLoop(given, sender)],
  ['Cannot use the store because it ', (given) => createPlatform(given)],
  ['The store must ', (given) => createMetrics(given)],
  ['The store must ', (given) => waitForDelivery(given, { organizationId: 'org_1', eventId: 'evt_1' })],
  ['The sender must ', (given) => createDeliveryLoop(store, given)],
  ['The settings must ', (given) => createSettingsPage(given, { authorize: () => null })],
  ['The request must ', (given) => receiveWebhook(given, { secret: SECRET })],
  ['The request must ', (given) => receiveFetched(given, { secret: SECRET })],
  ['The request must ', (given) => createBusinessApi(store)(given)],
  ['The request must ', (given) => createBusinessApi(store).fetch(given)],
  ['The request must ', (given) => createBusinessApi(store).authenticate(given, { scope: 'leads:read' })],
  ['The options must ', (given) => createBusinessApi(store).authenticate(new Request('http://x'), given)],
  [
    'Cannot authenticate a request because ',
    (given) => createBusinessApi(store).authenticate(new Request('http://x'), { scope: given }),
  ],
  ["Option 'clock' must ", (given) => createIds(given)],
  ["Option 'settings' must ", (given) => captureWebhooks({ settings: given, organizationId: 'org_1' })],
  ["Option 'types' must ", (given) => captureWebhooks({ settings, organizationId: 'org_1', types: given })],
  ["Option 'service' must ", (given) => captureWebhooks({ service: given })],
  ["Option 'clock' must ", (given) => captureWebhooks({ clock: given })],
  [
    "Option 'isSeen' must ",
    (given) => receiveWebhook(new Request('http://x'), { secret: 'x', isSeen: given }),
  ],
  ["Option 'eventId' must ", (given) => waitForDelivery(store, { organizationId: 'org_1', eventId: given })],
  [
    "Option 'organizationId' must ",
    (given) => waitForDelivery(store, { organizationId: given, eventId: 'evt_1' }),
  ],
  ['Cannot set the clock because ', (given) => createFakeClock(given)],
  ['Cannot find the slot because ', (given) => slotOf(given)],
  ['Cannot page because ', (given) => readPage(given)],
  ['Cannot page because ', (given) => page([], given)],
  ['Cannot add a JSON Schema because ', (given) => withJsonSchema(given, {})],
  ['Cannot define route ', (given) => defineRoute(given)],
  ['Cannot define route ', (given) => defineRoute({ operationId: given, path: given, tag: given } as never)],
  ['Cannot define event ', (given) => defineEvent({ type: given } as never)],
]

test('an argument of the wrong type is named, and never with a message of the engine', async () => {
  for (const [subject, call] of ARGUMENTS) {
    for (const value of oddValues()) {
      // An empty object can be a service, and a text can be a name, though not the right one.
      if (subject.includes('types') && Array.isArray(value)) continue
      if (/'service'|options/.test(subject) && isEmptyObject(value)) continue
      if (typeof value === 'string' && /eventId|organizationId|slot|route|event /.test(subject)) continue
      await assert.rejects(async () => call(value as never), isNaming(subject), `${subject}${typeof value}`)
    }
  }
  assert.throws(() => createPlatform(undefined as never), /: current value is undefined$/)
  assert.throws(() => createBusinessApi(undefined as never), /because it is undefined$/)
})

test('a mistyped address is shown, and nothing else', () => {
  const refuse = (text: string) => () => createWebhookSender({ refuseAddresses: [text] })
  assert.throws(refuse('2001:db8:1234:5678::1/64'), /: '2001:db8:1234:5678::1\/64' is neither$/)
  assert.throws(refuse('c0ffee'.repeat(6)), /: a string of 36 characters is neither$/)
})

test('captureWebhooks() without settings has no types, and needs a usable secret', async () => {
  await assert.rejects(captureWebhooks({ types: ['client.created'] }), /^TypeError: Option 'types' must /)
  await using captured = await captureWebhooks()
  assert.throws(() => captured.verifyWith([]), /^TypeError: The signing secrets must be /)
})

test('an async function where the result is needed at once is named, and its rejection does not end the process', async () => {
  const fail = async () => {
    throw new Error('of the test')
  }
  const errors: unknown[] = []
  const onError = (error: unknown): void => void errors.push(error)
  const api = createBusinessApi(store, { peerAddress: fail as never, onError, logger: false })
  assert.equal((await api(new Request('http://x/api/v1/clients'))).status, 500)
  assert.match(String(errors[0]), /^TypeError: Option 'peerAddress' must not be an async function$/)
  const { clients } = createPlatform(store, { traceparent: fail as never })
  assert.ok(await clients.create('org_1', { name: 'Atlas' }))
  const page = createSettingsPage(settings, {
    authorize: () => null,
    layout: fail as never,
    logger: false,
    onError,
  })
  assert.equal((await page(new Request('http://x/'))).status, 500)
  // An unhandled rejection would fail this test in a later turn.
  await new Promise((resolve) => setImmediate(resolve))
})
