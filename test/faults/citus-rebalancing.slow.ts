// A worker is added to a cluster, filled and emptied again under load: three to six minutes.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleep } from '../../lib/base/time.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createCitusDatabase, WITH_CITUS } from '../_citus.ts'
import { TODAY } from '../_days.ts'
import { success } from '../contract/delivering.ts'
import { portOf, startLoad, tallyOf } from './_citus-load.ts'
import { setScene } from './_deliveries.ts'
import { createPublished, publishBySql } from './_publishers.ts'
import { assertDelivered, describeTally, untilDelivered } from './_tally.ts'

const ORGANIZATIONS = ['org_one', 'org_two', 'org_three', 'org_four', 'org_five', 'org_six']
const PHASES = ['calm', 'adding', 'rebalancing', 'moving', 'draining', 'after']

test(
  'a worker that is added, filled and emptied under load loses nothing, and lists of changes miss nothing',
  WITH_CITUS,
  async (t) => {
    const database = await createCitusDatabase({ workers: 1 })
    t.after(() => database.drop())
    const scene = await setScene(t, database.url)
    const { sql } = scene
    for (const organizationId of ORGANIZATIONS) await scene.subscribe(organizationId, 'answering')
    const deliverers = await Promise.all([scene.startDeliverer(), scene.startDeliverer()])
    const load = await startLoad(database.url, ORGANIZATIONS, 2)
    t.after(() => load.host.stop())
    const worker = database.nodes[2]
    assert.ok(worker, 'the cluster has two workers')
    const took: Record<string, number> = {}
    const during = async (phase: string, work: () => PromiseLike<unknown>): Promise<void> => {
      load.phase = phase
      const begunAt = performance.now()
      await work()
      took[phase] = Math.round(performance.now() - begunAt)
    }
    const portsOf = (): Promise<number[]> => Promise.all(ORGANIZATIONS.map((id) => portOf(sql, id)))

    await during('calm', () => sleep(5000))
    await during('adding', () => sql`select citus_add_node(${new URL(worker.url).hostname}, ${worker.port})`)
    await during(
      'rebalancing',
      () => sql`select rebalance_table_shards('business_api.events', rebalance_strategy => 'by_shard_count')`,
    )
    assert.equal(new Set(await portsOf()).size, 2, 'both workers have organizations')
    // There and back, while writers wait and while writers go on.
    await during('moving', async () => {
      for (const mode of ['block_writes', 'force_logical', 'block_writes']) {
        await withoutRemains(() => moveShard(mode))
      }
    })
    await during('draining', () =>
      withoutRemains(
        async () =>
          void (await sql`select citus_drain_node(${new URL(worker.url).hostname}, ${worker.port})`),
      ),
    )
    assert.ok(!(await portsOf()).includes(worker.port), 'the drained worker has no organizations')
    await during('after', () => sleep(5000))
    await load.stop()
    const drainedMs = await untilDelivered(scene, 60_000)

    for (const phase of PHASES) {
      console.log(`${phase}, ${took[phase]} ms: ${JSON.stringify(tallyOf(load, phase, ORGANIZATIONS))}`)
    }
    await load.assertLedger(sql)
    for (const deliverer of deliverers) deliverer.assertUnharmed()
    const published = createPublished()
    published.unnamed = 2 * load.created
    const tally = await assertDelivered(scene, published)
    console.log(`${describeTally(tally)}, the last ${Math.round(drainedMs)} ms after the load`)
    const statuses = new Set(load.samples.map(({ status }) => status))
    assert.deepEqual(
      [...statuses].filter((status) => ![200, 409, 503].includes(Number(status))),
      [],
      'nothing but 200, 503, and 409 for a create that is under way',
    )

    /** Citus refuses to move a shard back while a reader keeps the shard that was left behind. */
    async function withoutRemains(work: () => Promise<void>): Promise<void> {
      for (let tries = 1; ; tries++) {
        try {
          return await work()
        } catch (error) {
          if (tries === 20 || !String(error).includes('could not be cleaned up')) throw error
          await sleep(500)
          await sql`call citus_cleanup_orphaned_resources()`
        }
      }
    }

    async function moveShard(mode: string): Promise<void> {
      await sql`
      select citus_move_shard_placement(
        placed.shardid, placed.nodename, placed.nodeport, other.nodename, other.nodeport, ${mode}::citus.shard_transfer_mode
      )
      from pg_dist_shard_placement placed
      join pg_dist_node other on other.nodeport <> placed.nodeport and other.shouldhaveshards
      where placed.shardid = get_shard_id_for_distribution_column('business_api.events', ${ORGANIZATIONS[0] ?? ''}::text)`
    }
  },
)

test(
  'a shard is not moved while a claim from one of its organizations is under way',
  WITH_CITUS,
  async (t) => {
    const database = await createCitusDatabase()
    t.after(() => database.drop())
    const scene = await setScene(t, database.url)
    await scene.subscribe('org_one', 'answering')
    const [endpoint] = await scene.sql<{ id: string }[]>`select id from business_api.webhook_endpoints`
    const targets = JSON.stringify([{ endpointId: endpoint?.id, budget: 1, isBackfill: false }])
    const mover = database.sql({ max: 1 })
    await mover`set lock_timeout = '2s'`
    const move = (): Promise<unknown> => mover`
    select citus_move_shard_placement(
      placed.shardid, placed.nodename, placed.nodeport, other.nodename, other.nodeport, 'block_writes'
    )
    from pg_dist_shard_placement placed
    join pg_dist_node other on other.nodeport <> placed.nodeport and other.shouldhaveshards
    where placed.shardid = get_shard_id_for_distribution_column('business_api.events', 'org_one'::text)`
    await scene.sql.begin(async (tx) => {
      await tx`
      select answer from business_api.claim_organization(
        'org_one', 'token', false, ${targets}::text::jsonb, false, 1000, 1000, 1000
      ) as answer`
      await assert.rejects(move(), /lock timeout/, 'the move waits for the claim')
    })
  },
)

test('what a claim or a result has answered is not lost when the shard moves', WITH_CITUS, async (t) => {
  const database = await createCitusDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 2 })
  const store = createPostgresStore(database.url)
  t.after(() => store.close())
  await sql`
    insert into business_api.webhook_endpoints (organization_id, id, url, state, created_at, sealed_secret)
    values ('org_one', 'we_1', 'https://hooks.example/', 'enabled', now(), 'plain.whsec_test')`
  await sql`
    insert into business_api.events (organization_id, id, type, created_at, body, delivery_prefix)
    values ('org_one', 'evt_1', 'client.created', now(), '{}', ${TODAY})`
  await sql`
    insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
    select 'org_one', ${TODAY} || lpad(number::text, 6, '0'), 'evt_1', 'client.created', 'we_1', now() - interval '1 second'
    from generate_series(1, 20000) as number`

  const claimed: string[] = []
  let isMoving = true
  const deliver = async (): Promise<void> => {
    for (let claims = 0; isMoving; claims++) {
      const token = `claim_${claims}`
      const answer = await store.deliveries.claim({
        token,
        isRepeat: false,
        limit: 3,
        maxBytes: 1_000_000,
        capacity: { endpoint: 3, organization: 3, endpoints: {}, organizations: {} },
        scanLimit: 10,
        cursor: null,
        leaseMs: 600_000,
        maxAttempts: 5,
      })
      claimed.push(...answer.deliveries.map(({ id }) => id))
      const [first] = answer.deliveries
      // Two of three stay claimed.
      if (first)
        await store.deliveries.writeResults([success({ ...first, token })], { failures: 20, failingMs: 1000 })
    }
  }
  // Commits that wait for the disk, as creates do: they write out what was committed before them, and no more.
  const commit = async (): Promise<void> => {
    while (isMoving) {
      await sql`update business_api.webhook_endpoints set description = ${String(claimed.length)} where organization_id = 'org_one'`
      await sleep(50)
    }
  }
  const delivering = Promise.all([deliver(), commit()])
  for (let moves = 0; moves < 6; moves++) {
    await sleep(300)
    await sql`call citus_cleanup_orphaned_resources()`
    await sql`
      select citus_move_shard_placement(
        placed.shardid, placed.nodename, placed.nodeport, other.nodename, other.nodeport, 'force_logical'
      )
      from pg_dist_shard_placement placed
      join pg_dist_node other on other.nodeport <> placed.nodeport and other.shouldhaveshards
      where placed.shardid = get_shard_id_for_distribution_column('business_api.events', 'org_one'::text)`
  }
  isMoving = false
  await delivering
  assert.ok(claimed.length > 100, `${claimed.length} deliveries were claimed`)
  const again = claimed.length - new Set(claimed).size
  assert.equal(again, 0, `${again} of ${claimed.length} deliveries were claimed twice`)
})

test('an organization with a shard and a node of its own gets its deliveries', WITH_CITUS, async (t) => {
  const database = await createCitusDatabase({ workers: 1 })
  t.after(() => database.drop())
  const scene = await setScene(t, database.url)
  const { sql } = scene
  const worker = database.nodes[2]
  assert.ok(worker, 'the cluster has two workers')
  await sql`select citus_add_node(${new URL(worker.url).hostname}, ${worker.port})`
  for (const organizationId of ['org_own', 'org_other']) await scene.subscribe(organizationId, 'answering')
  await sql`select isolate_tenant_to_new_shard('business_api.events', 'org_own', 'CASCADE', 'block_writes')`
  await sql`
    select citus_move_shard_placement(
      placed.shardid, placed.nodename, placed.nodeport, other.nodename, other.nodeport, 'block_writes'
    )
    from pg_dist_shard_placement placed
    join pg_dist_node other on other.nodeport = ${worker.port} and placed.nodeport <> other.nodeport
    where placed.shardid = get_shard_id_for_distribution_column('business_api.events', 'org_own'::text)`
  assert.deepEqual(
    [await portOf(sql, 'org_own'), await portOf(sql, 'org_other')],
    [worker.port, database.nodes[1]?.port],
  )

  const deliverer = await scene.startDeliverer()
  const published = createPublished()
  for (const organizationId of ['org_own', 'org_other']) {
    for (let left = 10; left > 0; left--) published.committed.add(await publishBySql(sql, organizationId))
  }
  await untilDelivered(scene, 30_000)
  const tally = await assertDelivered(scene, published)
  console.log(describeTally(tally))
  deliverer.assertUnharmed()
  const store = createPostgresStore(database.url)
  t.after(() => store.close())
  const { isPartial } = await store.deliveries.countQueue(null)
  assert.equal(isPartial, undefined, 'a process that has just started knows the node')
})
