import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { Sql, TransactionSql } from 'postgres'
import { newEntry } from '../_audit.ts'
import {
  addEndpoint,
  claimAndVanish,
  createGate,
  createTestSender,
  describeOnPostgres,
  describeOnStores,
  hang,
  NO_POLL,
  ORG,
  onlyDelivery,
  publish,
  publishMany,
  until,
  withDeliveries,
} from './_loop.ts'

// What wakes a waiting loop, and several loops on the same store.

describeOnStores('A loop that waits is woken', (under) => {
  /** Starts a loop that isn't woken by time within the hour, and waits until it's waiting. */
  async function startAtRest(...[sender, options]: Parameters<typeof under.loop>): Promise<void> {
    const claimed = createGate()
    const store = withDeliveries(under.store, {
      async claim(request) {
        const claims = await under.store.deliveries.claim(request)
        claimed.open()
        return claims
      },
    })
    under.loop(sender, { ...NO_POLL, ...options }, store).start()
    await claimed.opened
  }

  test('by an event of this process, immediately', async () => {
    await addEndpoint(under.store)
    const sender = createTestSender()
    await startAtRest(sender)
    for (let number = 1; number <= 5; number++) {
      await publish(under.store)
      await sender.sent(number)
    }
  })

  test('by resuming an endpoint', async () => {
    const endpointId = await addEndpoint(under.store)
    await under.store.endpoints.setState({
      organizationId: ORG,
      endpointId,
      state: 'paused',
      from: ['enabled'],
      entry: newEntry(),
    })
    await publish(under.store)
    const sender = createTestSender()
    await startAtRest(sender)
    await under.store.endpoints.setState({
      organizationId: ORG,
      endpointId,
      state: 'enabled',
      from: ['paused'],
      entry: newEntry(),
    })
    await sender.sent(1)
  })

  test('by sending a delivery again', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const sender = createTestSender()
    await startAtRest(sender)
    await sender.sent(1)
    await until('it is delivered', async () => (await onlyDelivery(under.store)).state === 'delivered')
    await under.store.deliveries.recover({
      organizationId: ORG,
      ids: [(await onlyDelivery(under.store)).id],
      filter: {},
      limit: 10,
      entry: newEntry(),
    })
    await sender.sent(2)
  })

  test('when a retry is due', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const sender = createTestSender(() => ({ status: 500 }))
    await startAtRest(sender, { retryDelaysMs: [40, 80, 20, 60] })
    await sender.sent(5)
  })

  test('by a delivery released by another loop', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const hanging = createTestSender((_request, _number, signal) => hang(signal))
    const other = under.loop(hanging, NO_POLL)
    other.start()
    await hanging.sent(1)
    const sender = createTestSender()
    await startAtRest(sender)
    await other.stop({ timeoutMs: 0 })
    await publish(under.store)
    await sender.sent(2)
  })
})

describeOnPostgres('A loop that waits is woken', (under) => {
  /** The backends that are listening, by process id. */
  async function listeners(): Promise<number[]> {
    const rows = await under.sql<{ pid: number }[]>`
      select pid from pg_stat_activity
      where datname = current_database() and state = 'idle' and query ~ '^listen |advisory_lock'
        and query !~ 'pg_stat_activity'`
    return rows.map(({ pid }) => pid)
  }

  const untilListening = (isOther: (pid: number) => boolean = () => true) =>
    until('another connection listens', async () => (await listeners()).some(isOther))

  test('by an event of another process through its notification', async () => {
    await addEndpoint(under.store)
    const sender = createTestSender()
    under.loop(sender, NO_POLL).start()
    await untilListening()
    for (let number = 1; number <= 3; number++) {
      await publish(under.secondStore())
      await sender.sent(number)
    }
  })

  test('only by polling if a host publishes with SQL', async () => {
    await addEndpoint(under.store)
    const sender = createTestSender()
    under.loop(sender, { pollIntervalMs: 20 }).start()
    await untilListening()
    const [published] = await under.sql<{ id: string }[]>`
      select business_api.publish_event(${ORG}, 'project.completed', '{"n":1}'::jsonb) as id`
    await sender.sent(1)
    assert.deepEqual(sender.eventIds, [published?.id])
  })

  test('by the commit of a host that publishes with SQL while the loop is idle', async () => {
    await addEndpoint(under.store)
    const publishIn = (sql: TransactionSql | Sql) =>
      sql`select business_api.publish_event(${ORG}, 'project.completed', '{"n":1}'::jsonb)`
    let calls = 0
    const watch = under.store.deliveries.watch(() => calls++)
    const other = under.secondStore().deliveries.watch(() => {})
    try {
      assert.equal(await watch.setIdle(true), false, 'nothing listens yet')
      await untilListening()
      await under.sql.begin(async (transaction) => {
        await publishIn(transaction)
        assert.equal(await watch.setIdle(true), false, 'a transaction of before is open')
      })
      assert.equal(await watch.setIdle(true), true)
      await until('another loop is told too', () => other.setIdle(true))
      calls = 0
      await under.sql.begin(async (transaction) => {
        await publishIn(transaction)
        await sleep(50)
        assert.equal(calls, 0, 'it was told before the commit')
      })
      await until('the watcher is told', async () => calls > 0)

      const before = await listeners()
      await under.sql`
        select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory' and l.mode = 'ExclusiveLock'`
      await until('it is idle on another connection', async () => {
        const isIdle = await watch.setIdle(true)
        return isIdle && (await listeners()).some((pid) => !before.includes(pid))
      })
      calls = 0
      await publishIn(under.sql)
      await until('the watcher is told', async () => calls > 0)

      await other.setIdle(false)
      assert.equal(await watch.setIdle(false), false)
      const notified: string[] = []
      const { unlisten } = await under.sql.listen('business_api_deliveries', (payload) =>
        notified.push(payload),
      )
      await publishIn(under.sql)
      await under.sql.notify('business_api_deliveries', 'later')
      await until('the later notification has come', async () => notified.length > 0)
      assert.deepEqual(notified, ['later'], 'a transaction serialized the commits for a loop that is busy')
      await unlisten()
    } finally {
      watch.end()
      other.end()
    }
  })

  test('by notifications again after the listening connection was lost', async () => {
    await addEndpoint(under.store)
    const sender = createTestSender()
    under.loop(sender, NO_POLL).start()
    await untilListening()
    const before = await listeners()
    await under.sql`select pg_terminate_backend(pid) from unnest(${before}::int[]) as pid`
    await untilListening((pid) => !before.includes(pid))
    await publish(under.secondStore())
    await sender.sent(1)
  })

  test('no longer after the stop, because nothing is listening', async () => {
    const loop = under.loop(createTestSender(), NO_POLL)
    loop.start()
    await untilListening()
    await loop.stop()
    await until('no connection listens', async () => (await listeners()).length === 0)
  })
})

describeOnPostgres('Two processes', (under) => {
  test('that deliver at the same time deliver each event once', async () => {
    for (let number = 0; number < 4; number++) await addEndpoint(under.store, {}, `org_${number}`)
    for (let number = 0; number < 4; number++) await publishMany(under.store, 50, `org_${number}`)
    const sender = createTestSender(async () => {
      await turn()
      return {}
    })
    const loops = [under.loop(sender), under.loop(sender, {}, under.secondStore())]
    const counts = await Promise.all(loops.map((loop) => loop.runOnce()))
    assert.equal(sender.requests.length, 200)
    assert.equal(new Set(sender.eventIds).size, 200)
    assert.equal(
      counts.reduce((sum, { delivered }) => sum + delivered, 0),
      200,
    )
  })
})

describeOnStores('A process that has died', (under) => {
  test('leaves the attempt interrupted, and another loop sends its deliveries after the lease', async () => {
    await addEndpoint(under.store)
    const { id } = await publish(under.store)
    assert.equal(await claimAndVanish(under.store, 30_000), 1)
    const sender = createTestSender()
    const loop = under.loop(sender)
    await under.letTimePass(29_000)
    await loop.runOnce()
    assert.deepEqual(sender.requests, [])
    await under.letTimePass(1000)
    await loop.runOnce()
    assert.deepEqual(sender.eventIds, [id])
    const { state, attempts, attemptLog } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts], ['delivered', 2])
    assert.deepEqual(
      attemptLog.map(({ number, status, error }) => [number, status, error]),
      [
        [1, null, 'interrupted'],
        [2, 200, null],
      ],
    )
  })
})
