import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { createDatabase } from '../../lib/postgres/connection/database.ts'
import { routeToShards } from '../../lib/postgres/distributed/routing.ts'
import { createDistributionReader } from '../../lib/postgres/distributed/state.ts'
import { createStoreOn } from '../../lib/postgres/store.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createCitusDatabase, WITH_CITUS } from '../_citus.ts'
import type { TestDatabase } from '../_database.ts'
import { changesOf, kinds } from '../contract/kinds.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { createTenant } from '../contract/tenant.ts'
import { type RecordingDatabase, recordStatements } from '../postgres/_recording.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'

// The contract on a Citus cluster: CITUS_URL names its coordinator.

let database: TestDatabase
let sql: Sql
let recording: RecordingDatabase
let store: PostgresStore
let secondStore: PostgresStore

const HARNESS = {
  events: (organizationId: string) => readEventsOf(sql, organizationId),
  letTimePass: (organizationId: string, ms: number) => letTimePass(sql, organizationId, ms),
}

describe('On Citus, the', WITH_CITUS, () => {
  before(async () => {
    database = await createCitusDatabase()
    sql = database.sql()
    const server = createDatabase(database.url)
    const isDistributed = createDistributionReader(server)
    recording = recordStatements(routeToShards(server, isDistributed))
    store = createStoreOn(recording, isDistributed)
    secondStore = createPostgresStore(database.url)
  })

  after(async () => {
    await Promise.all([store?.close(), secondStore?.close()])
    await database?.drop()
  })

  describeStoreContract({
    name: 'PostgreSQL',
    runner: { describe, test },
    store: () => store,
    secondStore: () => secondStore,
    ...HARNESS,
  })

  // By now the store has sent nearly every statement.
  test('a statement of an organization goes to the node of the organization, which asks no other node', async () => {
    const statements = [...recording.statements.values()].filter(({ share }) => typeof share === 'string')
    assert.ok(statements.length > 60, `only ${statements.length} statements were recorded`)
    const apart: string[] = []
    for (const { text, parameters, share } of statements) {
      const values = JSON.stringify(parameters)
      const [{ port } = { port: 0 }] = await sql<{ port: number }[]>`
        select nodeport as port from pg_dist_shard_placement
        where shardid = get_shard_id_for_distribution_column('business_api.events', ${String(share)}::text)`
      const explained = await sql<{ 'QUERY PLAN': string }[]>`
        explain select answer from business_api.ask_shard(${String(share)}::text, ${text}::text, ${values}::text) as answer`
      const plan = explained.map((row) => row['QUERY PLAN']).join('\n')
      if (!plan.includes('Task Count: 1') || !plan.includes(`port=${port}`)) apart.push(text)
      const asked = await readRemoteCommands(port, String(share), text, values)
      if (asked.length > 0 && !KEYS.test(text)) apart.push(`${text}\n${asked.join('\n')}`)
    }
    assert.deepEqual(apart, [])
  })

  test("what a transaction of the host's writes has the node's transaction id, and the next list of changes has it", async () => {
    const kind = kinds.clients
    const tenant = await createTenant({ ...HARNESS, store: () => store, secondStore: () => secondStore })
    const { position } = await changesOf(kind, tenant, { time: '1970-01-01T00:00:00.000Z' })
    const { id } = await sql.begin((tx) =>
      kind.create({ ...tenant, store: { ...store, ...store.using(tx) } }),
    )
    const created = await changesOf(kind, tenant, { position })
    assert.deepEqual(created.pages.flat(), [id])
    await sql.begin((tx) =>
      store.using(tx).clients.change({
        organizationId: tenant.id,
        id: 'chg_1',
        recordId: id,
        from: null,
        set: { status: 'paused' },
        events: [],
        idempotency: null,
      }),
    )
    const changed = await changesOf(kind, tenant, { position: created.position })
    assert.deepEqual(changed.pages.flat(), [id])
  })

  test("many keyed calls go through in transactions of one of the host's sessions", async () => {
    const { platform, organizationId } = { platform: createPlatform(store), organizationId: 'org_many_calls' }
    const session = postgres(database.url, { max: 1, onnotice: () => {} })
    try {
      // PostgreSQL plans a statement for all values from the sixth time on.
      for (let call = 1; call <= 12; call++) {
        const { id } = await session.begin((tx) =>
          platform
            .using(tx)
            .clients.create(organizationId, { name: `Client ${call}`, idempotencyKey: `create-${call}` }),
        )
        const { status } = await session.begin((tx) =>
          platform.using(tx).clients.setStatus(organizationId, {
            clientId: id,
            status: 'inactive',
            idempotencyKey: `pause-${call}`,
          }),
        )
        assert.equal(status, 'inactive')
      }
    } finally {
      await session.end()
    }
  })

  test('a position of a list of changes is of one placement of the shard: after a move everything is listed again', async () => {
    const kind = kinds.clients
    const tenant = await createTenant({ ...HARNESS, store: () => store, secondStore: () => secondStore })
    const { id } = await kind.create(tenant)
    const changesSince = async (position: string) =>
      (await changesOf(kind, tenant, { position })).pages.flat()
    const { position } = await changesOf(kind, tenant, { time: '1970-01-01T00:00:00.000Z' })
    await moveShard(tenant.id)
    assert.deepEqual(await changesSince(position), [id])
    await moveShard(tenant.id)
    assert.deepEqual(
      await changesSince(position),
      [id],
      'the shard is back on the first node, as another table',
    )
    const after = await changesOf(kind, tenant, { position })
    const { id: later } = await kind.create(tenant)
    const found = await changesSince(after.position)
    assert.ok(found.includes(later), 'a position from after the moves lists what was written since')
  })

  test('a create that waits for a move of the shard is carried out by the node that has the shard then', async () => {
    const patient = createPostgresStore(database.url, { statementTimeoutMs: 60_000 })
    try {
      const kind = kinds.clients
      const tenant = await createTenant({ ...HARNESS, store: () => patient, secondStore: () => secondStore })
      const { id: first } = await kind.create(tenant)
      let isMoving = true
      const moved = moveShard(tenant.id).finally(() => {
        isMoving = false
      })
      const createAll = async (): Promise<void> => {
        while (isMoving) await kind.create(tenant)
      }
      await Promise.all([moved, ...Array.from({ length: 4 }, createAll)])
      // All moved rows were written by one transaction of the new node, and every other row by the transaction that the row names.
      const rows = await sql<{ result: string }[]>`
        select result from run_command_on_shards('business_api.clients', ${`
          select json_agg(id) from %1$s where organization_id = '${tenant.id}' and xmin::text <> changed_xid::text
            and xmin::text <> (select xmin::text from %1$s where organization_id = '${tenant.id}' and id = '${first}')`})
        where result <> ''`
      assert.deepEqual([...rows], [])
    } finally {
      await patient.close()
    }
  })

  test('a node refuses to carry out a statement of an organization whose shard is on another node', async () => {
    const organizationId = 'org_elsewhere'
    const [{ port } = { port: 0 }] = await sql<{ port: number }[]>`
      select nodeport as port from pg_dist_node
      where shouldhaveshards and nodeport not in (
        select nodeport from pg_dist_shard_placement
        where shardid = get_shard_id_for_distribution_column('business_api.events', ${organizationId}::text)
      )
      limit 1`
    const url = new URL(database.url)
    url.port = String(port)
    const node = postgres(url.href, { max: 1, onnotice: () => {} })
    try {
      const asked = node.begin(
        (tx) =>
          tx`select answer from business_api.ask_shard(${organizationId}::text, 'select 1', '[]') as answer`,
      )
      await assert.rejects(asked, { code: '40001' })
    } finally {
      await node.end({ timeout: 1 })
    }
  })
})

/** Statements that write API keys, of which every node has a copy. The first step of a deletion revokes the keys. */
const KEYS =
  /(update|insert into) business_api\.api_keys|insert_api_key|rotate_api_key|delete_organization_part/

/** Carries a statement out on a node, takes it back, and returns the commands that the node sent to other nodes meanwhile. */
async function readRemoteCommands(
  port: number,
  organizationId: string,
  text: string,
  values: string,
): Promise<string[]> {
  const url = new URL(database.url)
  url.port = String(port)
  const commands: string[] = []
  const node = postgres(url.href, {
    max: 1,
    onnotice: ({ message = '' }) => {
      if (message.startsWith('issuing ')) commands.push(message)
    },
  })
  try {
    await node.begin(async (tx) => {
      await tx`set local citus.log_remote_commands = on`
      await tx`select answer from business_api.ask_shard(${organizationId}::text, ${text}::text, ${values}::text) as answer`
      throw ROLLED_BACK
    })
  } catch {
    // The statement was carried out before, and may refuse its second time.
  } finally {
    await node.end({ timeout: 1 })
  }
  return commands
}

const ROLLED_BACK = new Error('rolled back')

/** Moves the shards of an organization to another node. */
async function moveShard(organizationId: string): Promise<void> {
  await sql`
    select citus_move_shard_placement(
      placed.shardid, placed.nodename, placed.nodeport, other.nodename, other.nodeport, 'block_writes'
    )
    from pg_dist_shard_placement placed
    join pg_dist_node other on other.nodeport <> placed.nodeport and other.shouldhaveshards
    where placed.shardid = get_shard_id_for_distribution_column('business_api.clients', ${organizationId}::text)
    order by other.nodeport limit 1`
}
