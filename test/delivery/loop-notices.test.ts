import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type TestContext, test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import type { Notice } from '../../lib/webhooks/notices.ts'
import {
  AN_HOUR_MS,
  addEndpoint,
  claimAndVanish,
  createTestLog,
  createTestSender,
  describeOnMemory,
  describeOnStores,
  ORG,
  onlyDelivery,
  publish,
  publishMany,
  untyped,
  withDeliveries,
} from './_loop.ts'
import { expireBoth, listen } from './_notices.ts'

// The notices of a loop to the host. They are sent once across all processes despite failures on the way.

const FAILED = { status: 500 }
const GONE = { status: 410 }
const DAY_MS = 24 * AN_HOUR_MS

// --- Endpoints and failed deliveries ---

describeOnStores('Notices', (under) => {
  test("report an endpoint after half of the failures and again when it's disabled", async () => {
    const endpointId = await addEndpoint(under.store)
    await publishMany(under.store, 3)
    const heard = listen()
    const failureLimit = { failures: 4, failingMs: 60_000 }
    const options = { failureLimit, retryDelaysMs: [AN_HOUR_MS], onNotice: heard.onNotice }
    const loop = under.loop(
      createTestSender(() => FAILED),
      options,
    )
    await loop.runOnce()
    await under.letTimePass(60_000)
    await publish(under.store)
    await loop.runOnce()
    const [endpoint] = await under.store.endpoints.list(ORG)
    const failingSince = endpoint?.failingSince
    const [failing, ...others] = heard.notices
    assert.ok(failing?.kind === 'endpoint_failing' && failing.failures >= 2, `${failing?.kind}`)
    const told = { organizationId: ORG, endpointId, failures: 4, failingSince }
    assert.deepEqual(others, [{ kind: 'endpoint_disabled', ...told, reason: 'failing' }])
  })

  test('report both the failed delivery and the disabled endpoint after a 410', async () => {
    const endpointId = await addEndpoint(under.store)
    const event = await publish(under.store)
    const heard = listen()
    await under
      .loop(
        createTestSender(() => GONE),
        { onNotice: heard.onNotice },
      )
      .runOnce()
    const { id: deliveryId } = await onlyDelivery(under.store)
    const [endpoint] = await under.store.endpoints.list(ORG)
    const of = { organizationId: ORG, endpointId }
    const given = { deliveryId, eventId: event.id, type: event.type, reason: 'gone' }
    const health = { failures: 1, failingSince: endpoint?.failingSince }
    assert.deepEqual(heard.notices, [
      { kind: 'endpoint_disabled', ...of, ...health, reason: 'gone' },
      { kind: 'delivery_failed', ...of, ...given, count: 1 },
    ])
  })

  test('are sent after the cause has been written', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const seen: Promise<unknown>[] = []
    const onNotice = ({ kind }: Notice): void => {
      if (kind === 'delivery_failed') seen.push(onlyDelivery(under.store).then(({ state }) => state))
      else seen.push(under.store.endpoints.list(ORG).then(([endpoint]) => endpoint?.state))
    }
    await under
      .loop(
        createTestSender(() => GONE),
        { onNotice },
      )
      .runOnce()
    assert.deepEqual(await Promise.all(seen), ['disabled', 'failed'])
  })

  test('report a delivery that failed because the process of its last attempt died', async () => {
    const endpointId = await addEndpoint(under.store)
    const { id: eventId, type } = await publish(under.store)
    await claimAndVanish(under.store, 30_000)
    await under.letTimePass(30_000)
    const heard = listen()
    await under.loop(createTestSender(), { retryDelaysMs: [], onNotice: heard.onNotice }).runOnce()
    const { id: deliveryId } = await onlyDelivery(under.store)
    const given = { organizationId: ORG, endpointId, deliveryId, eventId, type, reason: 'interrupted' }
    assert.deepEqual(heard.notices, [{ kind: 'delivery_failed', ...given, count: 1 }])
  })

  test('report a burst of failed deliveries once per endpoint, with their number', async () => {
    const endpoints = [await addEndpoint(under.store), await addEndpoint(under.store)]
    await publishMany(under.store, 30)
    const heard = listen()
    const sender = createTestSender(() => FAILED)
    await under.loop(sender, { retryDelaysMs: [], onNotice: heard.onNotice }).runOnce()
    const failed = heard.notices.filter((notice) => notice.kind === 'delivery_failed')
    assert.deepEqual(
      failed.map(({ endpointId, count, reason }) => [endpointId, count, reason]).toSorted(),
      endpoints.map((endpointId) => [endpointId, 30, 'http_500']).toSorted(),
    )
  })

  test('report each failed delivery of a burst separately if the host asks for it', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 30)
    const heard = listen()
    const sender = createTestSender(() => FAILED)
    const options = { retryDelaysMs: [], deliveryNotices: 'each', onNotice: heard.onNotice } as const
    await under.loop(sender, options).runOnce()
    const failed = heard.notices.filter((notice) => notice.kind === 'delivery_failed')
    assert.equal(new Set(failed.map(({ deliveryId }) => deliveryId)).size, 30)
    assert.deepEqual(new Set(failed.map(({ count }) => count)), new Set([1]))
  })

  test('about failed deliveries are sent when the loop stops at the latest', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 3)
    const heard = listen()
    const sender = createTestSender(() => FAILED)
    const loop = under.loop(sender, { retryDelaysMs: [], onNotice: heard.onNotice })
    loop.start()
    await sender.sent(3)
    await loop.stop()
    const failed = heard.notices.filter((notice) => notice.kind === 'delivery_failed')
    assert.deepEqual(
      failed.map(({ count }) => count),
      [3],
    )
  })

  test("don't report successful attempts or attempts that will be retried", async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 3)
    const heard = listen()
    const sender = createTestSender((_request, number) => (number === 1 ? FAILED : {}))
    await under.loop(sender, { onNotice: heard.onNotice }).runOnce()
    assert.deepEqual([sender.requests.length, heard.notices], [3, []])
  })

  test('are sent once even if two results are lost', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const { deliveries } = under.store
    let calls = 0
    const store = withDeliveries(under.store, {
      async writeResults(...given) {
        const report = await deliveries.writeResults(...given)
        if (++calls <= 2) throw storeUnavailable('The answer was lost')
        return report
      },
    })
    const heard = listen()
    await under
      .loop(
        createTestSender(() => GONE),
        { onNotice: heard.onNotice },
        store,
      )
      .runOnce()
    assert.equal(calls, 3)
    assert.deepEqual(heard.kinds, ['endpoint_disabled', 'delivery_failed'])
  })

  test('are sent by one of two loops if both of their results make an endpoint failing', async () => {
    await addEndpoint(under.store)
    const heard = listen()
    const options = { failureLimit: { failures: 4, failingMs: DAY_MS }, onNotice: heard.onNotice }
    const loops = [0, 1].map(() =>
      under.loop(
        createTestSender(() => FAILED),
        options,
      ),
    )
    for (let round = 0; round < 3; round++) {
      for (const loop of loops) {
        await publish(under.store)
        await loop.runOnce()
      }
    }
    assert.equal((await under.store.endpoints.list(ORG))[0]?.failures, 6)
    assert.deepEqual(heard.kinds, ['endpoint_failing'])
  })

  test('about an endpoint are sent again after a success and new failures', async () => {
    await addEndpoint(under.store)
    const heard = listen()
    const options = { failureLimit: { failures: 2, failingMs: DAY_MS }, onNotice: heard.onNotice }
    const answers = [FAILED, FAILED, {}, FAILED, FAILED]
    const loop = under.loop(
      createTestSender((_request, number) => answers[number - 1] ?? {}),
      options,
    )
    for (const _ of answers) {
      await publish(under.store)
      await loop.runOnce()
    }
    assert.deepEqual(heard.kinds, ['endpoint_failing', 'endpoint_failing'])
  })
})

// --- Hosts ---

describeOnMemory('A host’s onNotice', (under) => {
  const bug = new TypeError('a bug')

  for (const [what, onNotice] of [
    [
      'throws',
      () => {
        throw bug
      },
    ],
    ['rejects', untyped<() => void>(() => Promise.reject(bug))],
  ] as const) {
    test(`that ${what} causes no harm: the error is passed to onError and the log`, async () => {
      await addEndpoint(under.store)
      await publishMany(under.store, 2)
      const { logger, lines } = createTestLog()
      const errors: unknown[] = []
      const onError = (error: unknown): void => void errors.push(error)
      const loop = under.loop(
        createTestSender(() => GONE),
        { onNotice, onError, logger },
      )
      const { failed } = await loop.runOnce()
      // One for each of the two failed deliveries and one for an endpoint.
      assert.deepEqual([failed, errors], [2, [bug, bug]])
      assert.equal(lines.filter(({ message }) => message === 'onNotice failed').length, 2)
      await loop.runOnce()
    })
  }

  test('that throws in onError as well causes no harm', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const fail = (): never => {
      throw bug
    }
    const loop = under.loop(
      createTestSender(() => GONE),
      { onNotice: fail, onError: fail },
    )
    assert.equal((await loop.runOnce()).failed, 1)
    assert.equal((await onlyDelivery(under.store)).state, 'failed')
  })

  test('can subscribe to the channel business-api:notice without onNotice', async (t) => {
    const published = listenToChannel(t)
    await addEndpoint(under.store)
    await publish(under.store)
    const heard = listen()
    await under
      .loop(
        createTestSender(() => GONE),
        { onNotice: heard.onNotice },
      )
      .runOnce()
    assert.equal(published.length, 2)
    assert.deepEqual(published, heard.notices)

    await addEndpoint(under.store)
    await publish(under.store)
    await under.loop(createTestSender(() => GONE)).runOnce()
    assert.equal(published.length, 4)
  })

  test('gets no secrets in notices, only what they are about', async (t) => {
    const published = listenToChannel(t)
    const { logger, lines } = createTestLog()
    await expireBoth(under)
    await publish(under.store)
    await under
      .loop(
        createTestSender(() => GONE),
        { logger },
      )
      .runOnce()
    assert.deepEqual(
      new Set(published.map((notice) => Reflect.get(notice, 'kind'))),
      new Set(['api_key_expiring', 'secret_expiring', 'delivery_failed', 'endpoint_disabled']),
    )
    assert.doesNotMatch(JSON.stringify([published, lines]), /whsec|digest|sealed/)
  })
})

function listenToChannel(t: TestContext): object[] {
  const published: object[] = []
  const keep = (notice: unknown): void => void published.push(untyped(notice))
  subscribe('business-api:notice', keep)
  t.after(() => unsubscribe('business-api:notice', keep))
  return published
}
