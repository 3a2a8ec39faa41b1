import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { createInspector } from '../../lib/postgres/schema/inspector.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import type { ClaimedDelivery, ClaimRef } from '../../lib/webhooks/deliveries.ts'
import { type CitusDatabase, type CitusNode, createCitusDatabase, WITH_CITUS } from '../_citus.ts'
import { TODAY } from '../_days.ts'
import { failure, refOf, success } from '../contract/delivering.ts'
import { organizationsByNode } from '../faults/_citus-load.ts'
import { until } from '../faults/_fixture.ts'
import type { NetworkProxy } from '../faults/_proxy.ts'

// What a node that does not answer costs the loops on a cluster: a second once, and no answer of another node. And what does not make a
// node silent: locked rows, and statements that take long.

const LOST = 8
const KEPT = 5
const CLAIM = {
  isRepeat: false,
  limit: 100,
  maxBytes: 1_000_000,
  capacity: { endpoint: 1, organization: 1, endpoints: {}, organizations: {} },
  scanLimit: 100,
  cursor: null,
  leaseMs: 60_000,
  maxAttempts: 5,
}

/** A delivery that a claim holds. */
type Held = Pick<ClaimedDelivery, 'organizationId' | 'id' | 'attempt'> & { readonly token: string }

describe('Beside a node that does not answer', WITH_CITUS, () => {
  let database: CitusDatabase
  let sql: Sql
  let store: PostgresStore
  let lost: readonly string[]
  let kept: readonly string[]
  let lostNode: CitusNode
  let proxy: NetworkProxy
  let claims = 0

  before(async () => {
    database = await createCitusDatabase({ proxied: true })
    sql = database.sql({ max: 2 })
    store = createPostgresStore(database.url)
    const byNode = [...(await organizationsByNode(database, sql, LOST))]
    const [[port, ofFirst], [, ofSecond]] = byNode as [(typeof byNode)[0], (typeof byNode)[0]]
    lostNode = database.nodes.find((node) => node.port === port) as CitusNode
    proxy = lostNode.proxy as NetworkProxy
    lost = ofFirst
    kept = ofSecond.slice(0, KEPT)
    for (const organizationId of [...lost, ...kept]) {
      await sql`
        insert into business_api.webhook_endpoints (organization_id, id, url, state, created_at, sealed_secret)
        values (${organizationId}, 'we_1', 'https://hooks.example/', 'enabled', now(), 'plain.whsec_test')`
      await addDelivery(organizationId, 1)
    }
  })
  afterEach(() => {
    proxy.speak()
    proxy.delay(0)
  })
  after(async () => {
    await store?.close()
    await database?.drop()
  })

  async function addDelivery(organizationId: string, number: number): Promise<void> {
    const id = `${TODAY}${number}`
    await sql`
      insert into business_api.events (organization_id, id, type, created_at, body, delivery_prefix)
      values (${organizationId}, ${`evt_${number}`}, 'client.created', now(), '{}', ${TODAY})`
    await sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
      values (${organizationId}, ${id}, ${`evt_${number}`}, 'client.created', 'we_1', now() - interval '1 second')`
  }

  async function timed<T>(work: Promise<T>): Promise<{ result: T; ms: number }> {
    const begunAt = performance.now()
    const result = await work
    return { result, ms: performance.now() - begunAt }
  }

  /** Carries out commands on the node of the lost organizations, past the coordinator. */
  async function onNode(...commands: readonly string[]): Promise<void> {
    const node = postgres(lostNode.url, { max: 1 })
    for (const command of ['set citus.enable_ddl_propagation = off', ...commands]) await node.unsafe(command)
    await node.end()
  }

  /** Claims under a token. */
  async function claim(token: string): Promise<readonly Held[]> {
    const { deliveries } = await store.deliveries.claim({ ...CLAIM, token })
    return deliveries.map((delivery) => ({ ...delivery, token }))
  }

  /** Claims until as many deliveries are claimed: a busy machine may leave an organization to the next claim. */
  async function claimAll(count: number): Promise<readonly Held[]> {
    const found: Held[] = []
    await until(
      'all deliveries are claimed',
      async () => {
        found.push(...(await claim(`clm_${++claims}`)))
        return found.length === count
      },
      60_000,
    )
    return found
  }

  /** Gives claims back, also to a node that does not answer at first. */
  async function release(held: readonly Held[]): Promise<void> {
    let claims: readonly ClaimRef[] = held.map(refOf)
    await until(
      'all claims are given back',
      async () => {
        claims = await store.deliveries.release(claims)
        return claims.length === 0
      },
      20_000,
    )
  }

  /** The organizations in order, with the attempt of each delivery. */
  const attemptsOf = (held: readonly Held[]): string[] =>
    held.map(({ organizationId, attempt }) => `${organizationId} ${attempt}`).sort()

  const first = (organizations: readonly string[]): string[] => organizations.map((id) => `${id} 1`).sort()

  async function isBack(): Promise<void> {
    await until('the node is back', async () => !(await store.deliveries.countQueue(null)).isPartial, 20_000)
  }

  test('one call waits for a second, the next ones do not, and counts say that a node is missing', async () => {
    const whole = await store.deliveries.countQueue(null)
    assert.deepEqual([whole.due, whole.isPartial], [LOST + KEPT, undefined])
    proxy.fallSilent()
    const first = await timed(store.deliveries.countQueue(null))
    assert.deepEqual([first.result.due, first.result.isPartial], [KEPT, true])
    assert.ok(first.ms >= 900, `waited for ${first.ms} ms`)
    const second = await timed(store.deliveries.countQueue(null))
    assert.deepEqual([second.result.due, second.ms < first.ms / 2], [KEPT, true], `${second.ms} ms`)
    const inspector = createInspector(database.url)
    const told = await inspector.backlog()
    await inspector.close()
    assert.deepEqual([told.due, told.isPartial], [KEPT, true], 'as status and doctor tell')
    proxy.speak()
    await isBack()
    assert.equal((await store.deliveries.countQueue(null)).due, LOST + KEPT)
  })

  test('a claim gets the deliveries of the other node, with the time of the store at its end', async () => {
    proxy.fallSilent()
    const token = 'clm_silent'
    const { result, ms } = await timed(store.deliveries.claim({ ...CLAIM, token }))
    assert.deepEqual(result.deliveries.map(({ organizationId }) => organizationId).sort(), [...kept].sort())
    assert.ok(ms < 2000, `${ms} ms`)
    const [{ time } = { time: 0 }] = await sql<{ time: number }[]>`
      select extract(epoch from clock_timestamp())::float8 * 1000 as time`
    assert.ok(Math.abs(result.storeTime - time) < 500, `${result.storeTime} at ${time}`)
    proxy.speak()
    await isBack()
    await release(result.deliveries.map((delivery) => ({ ...delivery, token })))
  })

  test('what a node has claimed whose answer was lost is given back, and no attempt is used up', async () => {
    await onNode(
      'alter function business_api.claim_organization rename to claim_organization_at_once',
      `create function business_api.claim_organization(
         organization_id text, token text, is_repeat boolean, targets jsonb, is_rest boolean, byte_limit integer, byte_budget integer,
         lease_ms double precision
       ) returns text language plpgsql as $$
       declare
         claims text := business_api.claim_organization_at_once($1, $2, $3, $4, $5, $6, $7, $8);
       begin
         perform pg_sleep(3);
         return claims;
       end $$`,
    )
    const { result, ms } = await timed(claim('clm_lost'))
    assert.deepEqual(attemptsOf(result), first(kept))
    assert.ok(ms < 6000, `${ms} ms`)
    await onNode(
      'drop function business_api.claim_organization',
      'alter function business_api.claim_organization_at_once rename to claim_organization',
    )
    const found = await claimAll(LOST)
    assert.deepEqual(attemptsOf(found), first(lost))
    await release([...result, ...found])
  })

  test('a read fails in a second, and a release tells what it could not give back', async () => {
    const held = await claimAll(LOST + KEPT)
    const refs = held.map(refOf)
    assert.equal((await store.deliveries.read(refs)).length, LOST + KEPT)
    proxy.fallSilent()
    const read = await timed(assert.rejects(store.deliveries.read(refs), { code: 'store_unavailable' }))
    assert.ok(read.ms < 2000, `${read.ms} ms`)
    const released = await timed(store.deliveries.release(refs))
    assert.deepEqual(released.result.map(({ organizationId }) => organizationId).sort(), [...lost].sort())
    assert.ok(released.ms < 900, `${released.ms} ms`)
    proxy.speak()
    await isBack()
    await release(held)
  })

  test('a locked organization delays the others of its node by a second once, and nobody is left out', async () => {
    const locked = kept[0] ?? ''
    const results = (await claimAll(LOST + KEPT)).map((delivery) => failure(delivery))
    const write = () => store.deliveries.writeResults(results, { failures: 20, failingMs: 1000 })
    await sql.begin(async (transaction) => {
      await transaction`
        select 1 from business_api.open_deliveries where organization_id = ${locked} and id = ${`${TODAY}1`} for update`
      const first = await timed(write())
      assert.deepEqual(
        first.result.unwritten?.map(({ organizationId }) => organizationId),
        [locked],
      )
      assert.ok(first.ms < 3000, `${first.ms} ms`)
      const second = await timed(write())
      assert.deepEqual(
        [second.result.unwritten?.length, second.result.lost.length, second.ms < 900],
        [1, 0, true],
        `${second.ms} ms`,
      )
      assert.equal((await store.deliveries.countQueue(null)).isPartial, undefined)
    })
    await until('all results are written', async () => (await write()).unwritten === undefined, 20_000)
    const written = await sql`
      select 1 from business_api.open_deliveries where is_backing_off or (claim_token is null and attempts = 1)`
    assert.equal(written.length, LOST + KEPT)
    await sql`delete from business_api.delivery_attempts`
    await sql`update business_api.open_deliveries set attempts = 0, is_backing_off = false`
  })

  test('a slow node gets its work done', async () => {
    // Citus says a few things to a node before the statement: each takes as long.
    proxy.delay(300)
    const held = await claimAll(LOST + KEPT)
    assert.deepEqual(attemptsOf(held), first([...lost, ...kept]))
    proxy.delay(0)
    await release(held)
  })

  test('the results of many organizations wait for a second once, and are written when the node is back', async () => {
    const results = (await claimAll(LOST + KEPT)).map((delivery) => success(delivery))
    const write = () => store.deliveries.writeResults(results, { failures: 20, failingMs: 1000 })
    proxy.fallSilent()
    const first = await timed(write())
    assert.equal(first.result.unwritten?.length, LOST)
    assert.ok(first.ms < 2000, `${first.ms} ms`)
    const second = await timed(write())
    assert.deepEqual([second.result.unwritten?.length, second.ms < 900], [LOST, true], `${second.ms} ms`)
    proxy.speak()
    await until('all results are written', async () => (await write()).unwritten === undefined, 20_000)
    assert.deepEqual((await write()).lost, [], 'results that are sent again are known')
    const [{ delivered } = { delivered: 0 }] = await sql<{ delivered: number }[]>`
      select count(*)::int as delivered from business_api.finished_deliveries where state = 'delivered'`
    assert.equal(delivered, LOST + KEPT)
  })

  test('500 due retries of a paused endpoint hide no retry of another organization', async () => {
    const paused = 'org_paused'
    const names = Array.from({ length: 200 }, (_, number) => `org_retrying_${number}`)
    const [{ other } = { other: '' }] = await sql<{ other: string }[]>`
      select name as other from unnest(${names}::text[]) as name
      where get_shard_id_for_distribution_column('business_api.open_deliveries', name)
            = get_shard_id_for_distribution_column('business_api.open_deliveries', ${paused}::text)
      limit 1`
    for (const [organizationId, state, count, hours] of [
      [paused, 'paused', 500, 2],
      [other, 'enabled', 1, 1],
    ] as const) {
      await sql`
        insert into business_api.webhook_endpoints (organization_id, id, url, state, created_at, sealed_secret)
        values (${organizationId}, 'we_1', 'https://hooks.example/', ${state}, now(), 'plain.whsec_test')`
      await sql`
        insert into business_api.events (organization_id, id, type, created_at, body, delivery_prefix)
        values (${organizationId}, 'evt_1', 'client.created', now(), '{}', ${TODAY})`
      await sql`
        insert into business_api.open_deliveries
          (organization_id, id, event_id, type, endpoint_id, due_at, attempts, is_backing_off)
        select ${organizationId}, ${TODAY} || number, 'evt_1', 'client.created', 'we_1', now() - ${hours} * interval '1 hour', 1, true
        from generate_series(1, ${count}::int) as number`
    }
    const found: string[] = []
    for (let claims = 1; claims <= 3; claims++) {
      const { deliveries } = await store.deliveries.claim({ ...CLAIM, token: `retries_${claims}` })
      found.push(...deliveries.map(({ organizationId }) => organizationId))
    }
    assert.deepEqual(
      found.filter((id) => id === other || id === paused),
      [other],
    )
  })
})
