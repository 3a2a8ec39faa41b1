import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { distribute } from '../../lib/postgres/schema/distribution.ts'
import { migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import { readMigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'
import { migrate } from '../../lib/postgres.ts'
import { createEmptyCitusDatabase, WITH_CITUS } from '../_citus.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cli, cliOn, jsonOf, textOf } from '../cli/_cli.ts'

let database: TestDatabase
let sql: Sql

describe('migrate() with the option `distributed`', () => {
  beforeEach(async () => {
    database = await createEmptyDatabase()
    sql = database.sql({ max: 1 })
  })
  afterEach(() => database.drop())

  const refusal = {
    message:
      'Cannot distribute the tables because this database has no extension citus. ' +
      'Create the extension on every node, add the nodes with citus_add_node, and try again.',
  }

  test('refuses a database without Citus, and keeps the migrations', async () => {
    await assert.rejects(migrate(database.url, { distributed: true }), refusal)
    assert.deepEqual((await migrate(database.url)).applied, [])
    await assert.rejects(migrate(sql, { distributed: true }), refusal)
  })

  test('is `migrate --distributed` of the command line, which refuses in one line', async () => {
    const run = cliOn(database.url)
    assertFailed(
      await run('migrate', '--distributed'),
      1,
      /has no extension citus\. Create the extension on every node/,
    )
    assertFailed(
      await run('migrate', '--distributed', '--dry-run'),
      2,
      /Give one of --dry-run and --distributed/,
    )
  })

  test('--print adds the distribution to the script, as a transaction of its own', async () => {
    const plain = textOf(await cli(['migrate', '--print']))
    const script = textOf(await cli(['migrate', '--print', '--distributed']))
    assert.ok(script.startsWith(plain))
    assert.match(
      script.slice(plain.length),
      /^\n-- the distribution\n\nbegin;\n[\s\S]*create_distributed_table[\s\S]*\ncommit;\n$/,
    )
    const { distribution } = jsonOf(await cli(['migrate', '--print', '--distributed', '--json']))
    assert.ok(script.endsWith(distribution))
    await assert.rejects(sql.unsafe(distribution), { code: '0A000', message: /has no extension citus/ })
  })
})

const EVERYWHERE = ['api_keys', 'event_days', 'event_limits', 'migrations', 'purge_progress']

describe('migrate() with the option `distributed`, on Citus', WITH_CITUS, () => {
  beforeEach(async () => {
    database = await createEmptyCitusDatabase()
    sql = database.sql({ max: 1 })
  })
  afterEach(() => database.drop())

  const places = () => sql<{ name: string; column: string | null; colocation: number }[]>`
    select relname as name, column_to_column_name(logicalrelid, partkey) as column, colocationid as colocation
    from pg_dist_partition join pg_class on pg_class.oid = logicalrelid::oid
    where relnamespace = 'business_api'::regnamespace and not relispartition order by relname`
  const tables = () => sql<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'business_api'::regnamespace and relkind in ('r', 'p') and not relispartition order by relname`

  test('distributes every table by organization, all together, and a second call distributes nothing', async () => {
    const { distributed = [], applied } = await migrate(database.url, { distributed: true })
    assert.ok(applied.length > 0)
    const all = (await tables()).map(({ name }) => name)
    assert.deepEqual(distributed, all)
    const placed = await places()
    assert.deepEqual(
      placed.map(({ name }) => name),
      all,
    )
    assert.deepEqual(
      placed.filter(({ column }) => column === null).map(({ name }) => name),
      EVERYWHERE,
    )
    const shards = placed.filter(({ column }) => column !== null)
    assert.deepEqual(new Set(shards.map(({ column, colocation }) => `${column} ${colocation}`)).size, 1)
    assert.equal(shards[0]?.column, 'organization_id')
    const again = await migrate(database.url, { distributed: true })
    assert.deepEqual(again, { applied: [], current: applied.length, distributed: [] })
  })

  test('keeps the rows of tables that refer to each other', async () => {
    await migrate(database.url)
    await sql`insert into business_api.businesses (organization_id, id, name) select 'org_' || n, 'biz', 'B' from generate_series(1, 50) n`
    await sql`
      insert into business_api.clients (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at)
      select 'org_' || n, 'cli', 'biz', 'active', 1, 1, now() from generate_series(1, 50) n`
    await migrate(database.url, { distributed: true })
    const [row] = await sql`
      select count(*)::int as count from business_api.clients c
      join business_api.businesses b on b.organization_id = c.organization_id and b.id = c.business_id`
    assert.equal(row?.count, 50)
    const [limit] = await sql`select max_body_bytes from business_api.event_limits`
    assert.equal(limit?.max_body_bytes, 262144)
  })

  test('the printed script does the same, twice', async () => {
    await migrate(database.url)
    const { distribution } = jsonOf(await cli(['migrate', '--print', '--distributed', '--json']))
    await sql.unsafe(distribution)
    await sql.unsafe(distribution)
    assert.deepEqual(await migrate(database.url, { distributed: true }), {
      applied: [],
      current: (await sql`select max(id) as id from business_api.migrations`)[0]?.id,
      distributed: [],
    })
    assert.equal((await places()).length, (await tables()).length)
  })

  test('without the option, a later migration of a distributed database is distributed too', async () => {
    const texts = Object.entries(readMigrationTexts()).sort(([name], [other]) => (name < other ? -1 : 1))
    const [last = ''] = texts.at(-1) ?? []
    await migrateFrom(sql, Object.fromEntries(texts.slice(0, -1)))
    await distribute(sql)
    // As a table that the migration makes.
    await sql`select undistribute_table('business_api.settings_turns')`
    assert.deepEqual((await migrate(database.url)).applied, [last])
    assert.ok(
      (await places()).some(({ name, column }) => name === 'settings_turns' && column === 'organization_id'),
    )
  })

  test('leaves no unlogged table, so that a shard can be moved while writers go on', async () => {
    await migrate(database.url, { distributed: true })
    await sql`insert into business_api.rate_buckets (organization_id, bucket, full_at) values ('org_1', 'key', 1)`
    await sql`
      select citus_move_shard_placement(
        placed.shardid, placed.nodename, placed.nodeport, other.nodename, other.nodeport, 'force_logical'
      )
      from pg_dist_shard_placement placed
      join pg_dist_node other on other.nodeport <> placed.nodeport and other.shouldhaveshards
      where placed.shardid = get_shard_id_for_distribution_column('business_api.rate_buckets', 'org_1'::text)
      limit 1`
    const [bucket] = await sql`select full_at from business_api.rate_buckets where organization_id = 'org_1'`
    assert.equal(bucket?.full_at, 1)
  })

  test('refuses a cluster without a node for shards', async () => {
    await sql`select citus_set_node_property(nodename, nodeport, 'shouldhaveshards', false) from pg_dist_node`
    await assert.rejects(migrate(database.url, { distributed: true }), {
      message:
        /^Cannot distribute the tables because no node of the cluster may hold shards\. Add the nodes /,
    })
    assert.deepEqual([...(await places())], [])
  })

  test('leaves a schema that `doctor` calls right', async () => {
    await migrate(database.url, { distributed: true })
    const { checks } = jsonOf(await cliOn(database.url)('doctor', '--json'))
    const schema = checks.find(({ name }: { name: string }) => name === 'schema')
    assert.equal(schema.level, 'ok', JSON.stringify(schema))
  })
})
