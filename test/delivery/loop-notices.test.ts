import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, type TestContext, test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createExpiryWatch } from '../../lib/delivery/expiry.ts'
import { createMaintenance, type MaintenanceTask } from '../../lib/delivery/maintenance.ts'
import type { DeliveryStore } from '../../lib/webhooks/deliveries.ts'
import type { ExpiryRequest, Notice } from '../../lib/webhooks/notices.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { newEntry } from '../_audit.ts'
import {
  AN_HOUR_MS,
  addEndpoint,
  claimAndVanish,
  createTestLog,
  createTestSender,
  describeOnMemory,
  describeOnPostgres,
  describeOnStores,
  ids,
  type LoopStore,
  NO_POLL,
  ORG,
  onlyDelivery,
  publish,
  publishMany,
  type StoreUnderTest,
  until,
  untyped,
  withDeliveries,
} from './_loop.ts'

// What a loop tells its host, once over all processes, whatever fails on the way.

const FAILED = { status: 500 }
const GONE = { status: 410 }
const DAY_MS = 24 * AN_HOUR_MS

/** Keeps what a loop tells. */
function listen() {
  const notices: Notice[] = []
  return {
    notices,
    onNotice: (notice: Notice): void => void notices.push(notice),
    get kinds() {
      return notices.map(({ kind }) => kind)
    },
  }
}

// --- Endpoints and dead letters ---

describeOnStores('Notices', (under) => {
  test('tell of an endpoint when half of the failures have come, and when it is disabled', async () => {
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

  test('tell of a subscriber that answers 410 both that the delivery was given up and that the endpoint is disabled', async () => {
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
      { kind: 'delivery_dead_lettered', ...of, ...given },
      { kind: 'endpoint_disabled', ...of, ...health, reason: 'gone' },
    ])
  })

  test('come when what they tell of has been written', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const seen: Promise<unknown>[] = []
    const onNotice = ({ kind }: Notice): void => {
      if (kind === 'delivery_dead_lettered') seen.push(onlyDelivery(under.store).then(({ state }) => state))
      else seen.push(under.store.endpoints.list(ORG).then(([endpoint]) => endpoint?.state))
    }
    await under
      .loop(
        createTestSender(() => GONE),
        { onNotice },
      )
      .runOnce()
    assert.deepEqual(await Promise.all(seen), ['dead_lettered', 'disabled'])
  })

  test('tell of a delivery that was given up as the process of its last attempt has ended', async () => {
    const endpointId = await addEndpoint(under.store)
    const { id: eventId, type } = await publish(under.store)
    await claimAndVanish(under.store, 30_000)
    await under.letTimePass(30_000)
    const heard = listen()
    await under.loop(createTestSender(), { retryDelaysMs: [], onNotice: heard.onNotice }).runOnce()
    const { id: deliveryId } = await onlyDelivery(under.store)
    const given = { organizationId: ORG, endpointId, deliveryId, eventId, type, reason: 'interrupted' }
    assert.deepEqual(heard.notices, [{ kind: 'delivery_dead_lettered', ...given }])
  })

  test('tell nothing of attempts that succeed, or that are made again', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 3)
    const heard = listen()
    const sender = createTestSender((_request, number) => (number === 1 ? FAILED : {}))
    await under.loop(sender, { onNotice: heard.onNotice }).runOnce()
    assert.deepEqual([sender.requests.length, heard.notices], [3, []])
  })

  test('come once when the answer that had them was lost, twice', async () => {
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
    assert.deepEqual(heard.kinds, ['delivery_dead_lettered', 'endpoint_disabled'])
  })

  test('come to one of two loops, whose results together make an endpoint failing', async () => {
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

  test('of an endpoint come again when it has succeeded and fails anew', async () => {
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
    test(`that ${what} harms nothing: onError hears of it, and the log`, async () => {
      await addEndpoint(under.store)
      await publishMany(under.store, 2)
      const { logger, lines } = createTestLog()
      const errors: unknown[] = []
      const onError = (error: unknown): void => void errors.push(error)
      const loop = under.loop(
        createTestSender(() => GONE),
        { onNotice, onError, logger },
      )
      const { deadLettered } = await loop.runOnce()
      // Two dead letters and an endpoint.
      assert.deepEqual([deadLettered, errors], [2, [bug, bug, bug]])
      assert.equal(lines.filter(({ message }) => message === 'onNotice failed').length, 3)
      await loop.runOnce()
    })
  }

  test('that throws together with onError harms nothing', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const fail = (): never => {
      throw bug
    }
    const loop = under.loop(
      createTestSender(() => GONE),
      { onNotice: fail, onError: fail },
    )
    assert.equal((await loop.runOnce()).deadLettered, 1)
    assert.equal((await onlyDelivery(under.store)).state, 'dead_lettered')
  })

  test('hears what the channel business-api:notice publishes, which needs no onNotice', async (t) => {
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

  test('hears nothing of secrets: a notice names what it tells of, and no more', async (t) => {
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
      new Set(['api_key_expiring', 'secret_expiring', 'delivery_dead_lettered', 'endpoint_disabled']),
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

// --- What will expire ---

/** A key of {@link ORG} that is in force for so long; gives its id. */
async function addKey(store: BusinessApiStore, ms: number): Promise<string> {
  const id = ids('key')
  const shown = { name: 'Website', scopes: [], prefix: 'bapi_live_', lastFour: 'abcd', rateLimit: null }
  const times = { createdAt: toTimestamp(Date.now()), expiresAt: toTimestamp(Date.now() + ms) }
  await store.apiKeys.insert({
    organizationId: ORG,
    limit: 1000,
    key: { id, ...shown, ...times, digest: `digest of ${id}` },
    entry: newEntry(),
  })
  return id
}

/** A key and a secret of {@link ORG} that expire in half an hour. */
async function expireBoth({ store }: StoreUnderTest): Promise<readonly string[]> {
  const keyId = await addKey(store, AN_HOUR_MS / 2)
  const endpointId = await addEndpoint(store)
  await store.endpoints.rotateSecret({
    organizationId: ORG,
    changeId: ids('chg'),
    endpointId,
    sealedSecret: 'plain.whsec_next',
    overlapMs: AN_HOUR_MS / 2,
    entry: newEntry(),
  })
  return [keyId, endpointId]
}

describeOnStores('What will expire', (under) => {
  test('is told of an hour before for a signing secret, and 7 days before for a key, by runOnce() too', async () => {
    const keyId = await addKey(under.store, 8 * DAY_MS)
    const endpointId = await addEndpoint(under.store)
    await under.store.endpoints.rotateSecret({
      organizationId: ORG,
      changeId: ids('chg'),
      endpointId,
      sealedSecret: 'plain.whsec_next',
      overlapMs: 8 * DAY_MS,
      entry: newEntry(),
    })
    const heard = listen()
    const loop = under.loop(createTestSender(), { onNotice: heard.onNotice })
    await loop.runOnce()
    assert.deepEqual(heard.kinds, [])
    await under.letTimePass(DAY_MS + 1000)
    await loop.runOnce()
    assert.deepEqual(heard.kinds, ['api_key_expiring'])
    await under.letTimePass(7 * DAY_MS - AN_HOUR_MS)
    await loop.runOnce()
    await loop.runOnce()
    const [endpoint] = await under.store.endpoints.list(ORG)
    const [key, secret, ...others] = heard.notices
    const expected = { kind: 'secret_expiring', organizationId: ORG, endpointId }
    assert.deepEqual([secret, others], [{ ...expected, expiresAt: endpoint?.previousSecretExpiresAt }, []])
    assert.ok(key?.kind === 'api_key_expiring')
    const { expiresAt, ...named } = key
    assert.deepEqual(named, { kind: 'api_key_expiring', organizationId: ORG, keyId, name: 'Website' })
    assert.ok(Date.parse(expiresAt) > Date.now())
  })

  test('is told of at the times that the host says, and not at all when it says so', async () => {
    const [keyId, endpointId] = await expireBoth(under)
    const heard = listen()
    const run = (expiryNoticeMs: Parameters<typeof under.loop>[1] & object) =>
      under.loop(createTestSender(), { ...expiryNoticeMs, onNotice: heard.onNotice }).runOnce()
    await run({ expiryNoticeMs: false })
    await run({ expiryNoticeMs: { apiKeys: false, signingSecrets: AN_HOUR_MS / 4 } })
    await run({ expiryNoticeMs: { apiKeys: AN_HOUR_MS / 4, signingSecrets: false } })
    assert.deepEqual(heard.kinds, [])
    await run({ expiryNoticeMs: { signingSecrets: false } })
    await run({ expiryNoticeMs: { apiKeys: false } })
    const told = heard.notices.map((notice) => {
      if ('keyId' in notice) return notice.keyId
      return 'endpointId' in notice ? notice.endpointId : notice.kind
    })
    assert.deepEqual(told, [keyId, endpointId])
  })

  test('is told of by one of two running loops, once', async () => {
    const heard = listen()
    await expireBoth(under)
    const { notices } = under.store
    let answers = 0
    const store: LoopStore = {
      ...under.store,
      notices: { claimExpiring: (request) => notices.claimExpiring(request).finally(() => answers++) },
    }
    const options = { ...NO_POLL, onNotice: heard.onNotice }
    const loops = [0, 1].map(() => under.loop(createTestSender(), options, store))
    for (const loop of loops) loop.start()
    await until('both have asked', () => answers === 2)
    await Promise.all(loops.map((loop) => loop.stop()))
    assert.deepEqual(heard.kinds.toSorted(), ['api_key_expiring', 'secret_expiring'])
  })
})

describeOnPostgres('Two processes', (under) => {
  test('that start at once tell of an expiry once', async () => {
    await expireBoth(under)
    const heard = listen()
    const stores = [under.store, under.secondStore()]
    const loops = [...stores, ...stores].map((store) =>
      under.loop(createTestSender(), { ...NO_POLL, onNotice: heard.onNotice }, store),
    )
    await Promise.all(loops.map((loop) => loop.runOnce()))
    assert.deepEqual(heard.kinds.toSorted(), ['api_key_expiring', 'secret_expiring'])
  })
})

describe('createExpiryWatch()', () => {
  test('repeats a request without an answer under its token, and no other', async () => {
    const requests: ExpiryRequest[] = []
    const announced: (readonly Notice[])[] = []
    const notice = {
      kind: 'secret_expiring',
      organizationId: ORG,
      endpointId: 'we_1',
      expiresAt: '',
    } as const
    const store = {
      async claimExpiring(request: ExpiryRequest) {
        if (requests.push(request) === 2) throw storeUnavailable('The answer was lost')
        return [notice]
      },
    }
    const times = { secretsWithinMs: 1, apiKeysWithinMs: null }
    const watch = createExpiryWatch(store, times, (notices) => announced.push(notices))
    assert.equal(await watch(), true)
    await assert.rejects(watch(), { code: 'store_unavailable' })
    await watch()
    await watch()
    const tokens = requests.map(({ token }) => token)
    assert.deepEqual(
      tokens.map((token) => tokens.indexOf(token)),
      [0, 1, 1, 3],
    )
    assert.deepEqual(announced, [[notice], [notice], [notice]])
    const [{ token: _, limit, ...asked } = { token: '', limit: 0 }] = requests
    assert.deepEqual([asked, limit > 0], [times, true])
  })

  test('has more to do when it was given all that it asked for', async () => {
    const notice = {
      kind: 'secret_expiring',
      organizationId: ORG,
      endpointId: 'we_1',
      expiresAt: '',
    } as const
    const store = {
      claimExpiring: async ({ limit }: ExpiryRequest) => Array.from({ length: limit }, () => notice),
    }
    const watch = createExpiryWatch(store, { secretsWithinMs: 1, apiKeysWithinMs: 1 }, () => {})
    assert.equal(await watch(), false)
  })
})

// --- Maintenance ---

describe('createMaintenance()', () => {
  const ignore = (): void => {}

  test('runOnce() does each until nothing is left, and no more than so many parts of it', async () => {
    const done = { few: 0, endless: 0, last: 0 }
    const maintenance = createMaintenance(
      [async () => ++done.few === 3, async () => ++done.endless < 0, async () => ++done.last === 1],
      ignore,
    )
    await maintenance.runOnce()
    assert.deepEqual(done, { few: 3, endless: 100, last: 1 })
  })

  test('runOnce() ends with the part that is under way, and throws the error of a task', async () => {
    let parts = 0
    const ended = createMaintenance(
      [
        async () => {
          if (++parts === 2) ended.stop()
          return false
        },
      ],
      ignore,
    )
    await ended.runOnce()
    assert.equal(parts, 2)
    let done = 0
    const other: MaintenanceTask = async () => ++done > 0
    const failing = createMaintenance([() => Promise.reject(new TypeError('a bug')), other], ignore)
    await assert.rejects(failing.runOnce(), TypeError)
    assert.equal(done, 1, 'the other task had its turn')
  })

  test('runOnce() reports every error: it throws the first, and onError receives the others', async () => {
    const errors: unknown[] = []
    const bugs = [new TypeError('first'), new RangeError('second'), new Error('third')]
    const failing = createMaintenance(
      bugs.map((bug) => () => Promise.reject(bug)),
      (error) => errors.push(error),
    )
    await assert.rejects(failing.runOnce(), bugs[0])
    assert.deepEqual(errors, bugs.slice(1))
  })

  test('keepRunning() goes on with the others when one fails or hangs, until it is ended', async () => {
    const errors: unknown[] = []
    let hasBeenDone = (): void => {}
    const done = new Promise<void>((resolve) => {
      hasBeenDone = resolve
    })
    const maintenance = createMaintenance(
      [
        () => Promise.reject(new TypeError('a bug')),
        async () => {
          hasBeenDone()
          return true
        },
      ],
      (error) => errors.push(error),
    )
    const kept = maintenance.keepRunning()
    await done
    maintenance.stop()
    await kept
    assert.equal(errors.length, 1)
  })
})

describeOnMemory('runOnce()', (under) => {
  test('forgets what is old until nothing is left', async () => {
    let purges = 0
    const continuePurge: DeliveryStore['continuePurge'] = async () => ({
      events: 0,
      idempotencyKeys: 0,
      isDone: ++purges === 4,
      waitMs: 1,
      lagMs: 0,
    })
    await under.loop(createTestSender(), {}, withDeliveries(under.store, { continuePurge })).runOnce()
    assert.equal(purges, 4)
  })
})
