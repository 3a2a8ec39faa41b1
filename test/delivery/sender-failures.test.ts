import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, mock, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { inspect } from 'node:util'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createDeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import type { DeliveryLoopOptions } from '../../lib/delivery/loop-options.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createWebhookSender } from '../../lib/sender/sender.ts'
import { attempt, createInterruption } from '../../lib/webhooks/attempt.ts'
import type { Notice } from '../../lib/webhooks/notices.ts'
import { createSecretSealer, generateSigningSecret } from '../../lib/webhooks/secret-sealing.ts'
import type { WebhookAnswer } from '../../lib/webhooks/webhook-sender.ts'
import {
  addEndpoint,
  createTestLog,
  createTestSender,
  deliveriesOf,
  describeOnMemory,
  describeOnStores,
  hang,
  ids,
  NO_POLL,
  ORG,
  onlyDelivery,
  publish,
  publishMany,
  until,
  untyped,
  withDeliveries,
} from './_loop.ts'

// Senders, hosts and secrets that fail.

describeOnStores('A sender with a bug', (under) => {
  const nonsense: readonly [string, () => unknown, Partial<WebhookAnswer>][] = [
    [
      'throws',
      () => {
        throw new TypeError('a bug')
      },
      { status: null, error: 'sender_failed' },
    ],
    ['rejects', () => Promise.reject(new TypeError('a bug')), { status: null, error: 'sender_failed' }],
    ['answers nothing', () => Promise.resolve(undefined), { status: null, error: 'sender_failed' }],
    ['answers an empty object', () => Promise.resolve({}), { status: null, error: 'sender_failed' }],
    [
      'answers numbers that are none',
      () =>
        Promise.resolve({
          status: 503,
          error: null,
          bodyExcerpt: '',
          durationMs: Number.NaN,
          retryAfterMs: Number.NaN,
          timings: { dnsMs: Number.NaN, connectMs: Number.POSITIVE_INFINITY, tlsMs: -1, firstByteMs: 'soon' },
        }),
      { status: 503, error: null },
    ],
    [
      'answers a status that is none',
      () => Promise.resolve({ status: 200.5, error: null, bodyExcerpt: '', durationMs: 1 }),
      { status: null, error: 'sender_failed' },
    ],
    [
      'answers a huge number',
      () => Promise.resolve({ status: 500, error: null, bodyExcerpt: '', durationMs: 1e300 }),
      { status: 500, error: null },
    ],
    [
      'answers text that no store keeps',
      () => Promise.resolve({ status: null, error: 'odd\0\ud800', bodyExcerpt: '\0', durationMs: 1 }),
      { status: null, error: 'odd\\u{0}\ufffd' },
    ],
  ]

  test('has failed attempts in the log, and the loop continues', async () => {
    for (const [what] of nonsense) {
      await addEndpoint(under.store, { url: `https://${what.replaceAll(' ', '-')}.test/` })
    }
    await publish(under.store)
    const errors: unknown[] = []
    const loop = under.loop(
      {
        send: ({ url }) => {
          const [, answer] = nonsense.find(([what]) => url.includes(`/${what.replaceAll(' ', '-')}.`)) ?? []
          return untyped(answer?.())
        },
        async close() {},
      },
      { onError: (error) => errors.push(error) },
    )
    const counts = await loop.runOnce()
    assert.deepEqual(counts, { delivered: 0, retried: nonsense.length, failed: 0 })
    assert.deepEqual(
      errors.map((error) => error instanceof TypeError),
      [true, true, true],
    )
    const urls = new Map((await under.store.endpoints.list(ORG)).map(({ id, url }) => [id, url]))
    for (const { endpointId, state, attemptLog } of await deliveriesOf(under.store)) {
      const [what, , expected] =
        nonsense.find(([name]) => urls.get(endpointId)?.includes(`/${name.replaceAll(' ', '-')}.`)) ?? []
      const [{ status, error, durationMs } = {}] = attemptLog
      assert.deepEqual([state, status, error], ['pending', expected?.status, expected?.error], what)
      assert.ok(typeof durationMs === 'number' && durationMs >= 0, what)
    }
  })
})

describe('attempt()', () => {
  const request = { url: 'https://subscriber.test/', headers: {}, body: '{}' }
  const silent = { send: () => new Promise<never>(() => {}), async close() {} }
  const onError = (error: unknown): never => assert.fail(inspect(error))

  test('ends after 12 seconds if a sender never responds', async () => {
    mock.timers.enable({ apis: ['setTimeout'] })
    try {
      const answered = attempt(silent, request, createInterruption(), onError)
      let isAnswered = false
      void answered.then(() => {
        isAnswered = true
      })
      mock.timers.tick(11_999)
      await turn()
      assert.equal(isAnswered, false)
      mock.timers.tick(1)
      const { status, error, durationMs } = await answered
      assert.deepEqual([status, error, typeof durationMs], [null, 'timeout', 'number'])
    } finally {
      mock.timers.reset()
    }
  })

  test('no longer waits for an interruption after it has ended', async () => {
    const interruption = createInterruption()
    const answered = attempt(createTestSender(), request, interruption, onError)
    assert.equal(interruption.listeners.size, 1)
    await answered
    assert.equal(interruption.listeners.size, 0)
  })
})

describeOnMemory('Many attempts at once', (under) => {
  test("that listen to the loop's signal cause no warning", async (t) => {
    const warnings: Error[] = []
    const warn = (warning: Error): number => warnings.push(warning)
    process.on('warning', warn)
    t.after(() => process.off('warning', warn))
    for (let number = 0; number < 8; number++) {
      await addEndpoint(under.store, {}, `org_${number}`)
      await publishMany(under.store, 4, `org_${number}`)
    }
    const sender = createTestSender((_request, _number, signal) => hang(signal))
    const loop = under.loop(sender, NO_POLL)
    loop.start()
    await sender.sent(32)
    await loop.stop({ timeoutMs: 0 })
    await turn()
    assert.deepEqual(
      warnings.filter(({ name }) => name === 'MaxListenersExceededWarning'),
      [],
    )
  })
})

describe('A host', () => {
  const bug = (): never => {
    throw new Error('the host has a bug')
  }

  /** Runs a loop whose first claim and first attempt fail until the failure was recorded. */
  async function runWith(options: DeliveryLoopOptions): Promise<void> {
    const store = createMemoryStore()
    await addEndpoint(store)
    await publish(store)
    let claims = 0
    const failing = withDeliveries(store, {
      async claim(request) {
        if (++claims === 1) throw storeUnavailable('The store is away')
        return store.deliveries.claim(request)
      },
    })
    const sender = createTestSender(() => ({ error: 'timeout' }))
    const loop = createDeliveryLoop(failing, sender, { ...NO_POLL, ...options })
    loop.start()
    await sender.sent(1)
    await loop.stop()
    assert.equal((await onlyDelivery(store)).attempts, 1)
  }

  test("whose onError or logger throws or rejects doesn't affect the loop, and sees the failure", async () => {
    const [thrown, rejected] = [createTestLog(), createTestLog()]
    const brokenLogger = { debug: bug, info: bug, warn: bug, error: bug }
    await Promise.all([
      runWith({ logger: thrown.logger, onError: bug }),
      runWith({ logger: rejected.logger, onError: untyped(async () => bug()) }),
      runWith({ logger: brokenLogger, onError: bug }),
    ])
    for (const { lines } of [thrown, rejected]) {
      assert.ok(lines.some(({ level, message }) => level === 'error' && message === 'onError failed'))
    }
  })
})

describeOnStores('A secret that cannot be opened', (under) => {
  const KEYS = { right: randomBytes(32), wrong: randomBytes(32) }

  test('uses up no attempts, is reported once, delays no other endpoint, and is never shown', async () => {
    const secret = generateSigningSecret()
    const endpointId = ids('we')
    const sealedSecret = createSecretSealer({ secretKeys: [KEYS.right] }).seal(secret, {
      organizationId: ORG,
      endpointId,
    })
    await addEndpoint(under.store, { id: endpointId, sealedSecret, types: ['lead.created'] })
    const otherId = ids('we')
    const ref = { organizationId: ORG, endpointId: otherId }
    const openable = createSecretSealer({ secretKeys: [KEYS.wrong] }).seal(secret, ref)
    await addEndpoint(under.store, { id: otherId, sealedSecret: openable, types: ['project.completed'] })
    await Promise.all(Array.from({ length: 10 }, () => publish(under.store, { type: 'lead.created' })))
    let claims = 0
    const store = withDeliveries(under.store, {
      claim(request) {
        claims++
        return under.store.deliveries.claim(request)
      },
    })
    const { logger, lines } = createTestLog()
    const errors: unknown[] = []
    const sender = createTestSender()
    const options = { ...NO_POLL, logger, secretKeys: [KEYS.wrong] }
    const loop = under.loop(sender, { ...options, onError: (error) => errors.push(error) }, store)
    loop.start()
    await until('it is told', () => errors.length > 0)
    const events = await publishMany(under.store, 5)
    await sender.sent(5)
    await loop.stop()
    assert.deepEqual(new Set(sender.eventIds), new Set(events.map(({ id }) => id)))
    assert.ok(claims < 30, `${claims} claims`)
    const waiting = (await deliveriesOf(under.store)).filter((delivery) => delivery.endpointId === endpointId)
    assert.deepEqual(
      waiting.map(({ state, attempts, attemptLog }) => [state, attempts, attemptLog.length]),
      Array(10).fill(['pending', 0, 0]),
    )
    assert.equal(errors.length, 1)
    assert.equal(lines.filter(({ level }) => level === 'warn').length, 1)
    for (const told of [...errors, ...lines]) {
      const text = inspect(told, { depth: 10 })
      assert.match(text, new RegExp(`secret_unavailable|${endpointId}|Attempt`))
      assert.equal(text.includes(secret) || text.includes(sealedSecret), false)
    }

    const able = under.loop(sender, { secretKeys: [KEYS.wrong, KEYS.right] })
    assert.deepEqual(await able.runOnce(), { delivered: 10, retried: 0, failed: 0 })
  })

  test("because it's stored as plain text despite keys makes deliveries wait until that's allowed, with a notice", async () => {
    const endpointId = await addEndpoint(under.store)
    await publishMany(under.store, 3)
    const [sender, errors] = [createTestSender(), [] as unknown[]]
    const keys = { secretKeys: [KEYS.right] }
    const refusing = under.loop(sender, {
      ...keys,
      retryDelaysMs: [],
      onError: (error) => errors.push(error),
    })
    for (let time = 0; time < 3; time++) {
      assert.deepEqual(await refusing.runOnce(), { delivered: 0, retried: 0, failed: 0 })
    }
    for (const { state, attempts, attemptLog } of await deliveriesOf(under.store)) {
      assert.deepEqual([state, attempts, attemptLog], ['pending', 0, []])
    }
    assert.deepEqual([sender.requests.length, errors.length], [0, 1])
    assert.match(inspect(errors[0]), /secret_unavailable/)
    assert.equal((await under.store.endpoints.list(ORG))[0]?.failures, 0)

    const notices: Notice[] = []
    const allowing = under.loop(sender, {
      ...keys,
      allowPlaintextSecrets: true,
      onNotice: (notice) => notices.push(notice),
    })
    assert.equal((await allowing.runOnce()).delivered, 3)
    assert.deepEqual(notices, [{ kind: 'secret_unsealed', organizationId: ORG, endpointId }])
  })

  test("doesn't prevent runOnce() from ending", async () => {
    await addEndpoint(under.store, { sealedSecret: 'v1.unknown' })
    await publish(under.store)
    const sender = createTestSender()
    const loop = under.loop(sender)
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 0 })
    assert.deepEqual([sender.requests.length, (await onlyDelivery(under.store)).attempts], [0, 0])
  })
})

describeOnMemory('A sender that cannot send', (under) => {
  test("uses up no attempts and doesn't count against the endpoint, and the host gets one report", async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 6)
    const sender = createWebhookSender()
    await sender.close()
    const errors: unknown[] = []
    const loop = under.loop(sender, { ...NO_POLL, onError: (error: unknown) => errors.push(error) })
    loop.start()
    await until('the host has heard of it', () => errors.length > 0)
    await loop.stop()
    for (const { state, attempts } of await deliveriesOf(under.store)) {
      assert.deepEqual([state, attempts], ['pending', 0])
    }
    assert.equal((await under.store.endpoints.list(ORG))[0]?.failures, 0)
    assert.equal(errors.length, 1)
  })
})
