import { after, before, describe, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import type { StoreUnderTest } from '../contract/harness.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { assertRepresentations } from '../postgres/_representations.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'

// The contract with every pool under row level security for one organization. The run proves that every statement names the
// organization: a statement without the organization would see nothing or be refused, and the suite would fail.

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
})

after(async () => {
  await policed.end()
  await database.drop()
})

const policed = createPolicedStores()

describeStoreContract({
  name: 'PostgreSQL under row level security',
  runner: { describe, test },
  without: ['one store for all'],
  store: (organizationId) => policed.store(organizationId),
  secondStore: (organizationId) => policed.secondStore(organizationId),
  events: (organizationId) => readEventsOf(sql, organizationId),
  letTimePass: (organizationId, ms) => letTimePass(sql, organizationId, ms),
})

test('PostgreSQL under row level security stores the representations that are computed anew', () =>
  assertRepresentations(sql))

interface PolicedStores extends Pick<StoreUnderTest, 'store' | 'secondStore'> {
  end(): Promise<void>
}

/** Pools of past organizations are ended: a pool for each of the suite's would be more than a server takes. */
const POOLS_KEPT = 6

function createPolicedStores(): PolicedStores {
  const role = `business_api_organization_${process.pid}_${Date.now()}`
  const pools = new Map<string, { readonly pool: Sql; readonly store: PostgresStore }>()
  const ended: Promise<void>[] = []
  let prepared: Promise<void> | undefined

  async function open(organizationId: string, which: string): Promise<PostgresStore> {
    prepared ??= police(role)
    await prepared
    const name = `${organizationId} ${which}`
    const opened = pools.get(name) ?? openStore(connect(role, organizationId))
    pools.delete(name)
    pools.set(name, opened)
    const [oldest, unused] = [...pools][0] ?? []
    if (pools.size > POOLS_KEPT && oldest !== undefined && unused !== undefined) {
      pools.delete(oldest)
      // No test waits for the goodbyes of a past one.
      ended.push(end(unused))
    }
    return opened.store
  }

  return {
    store: (organizationId) => open(organizationId, 'first'),
    secondStore: (organizationId) => open(organizationId, 'second'),
    async end() {
      await Promise.all([...ended, ...[...pools.values()].map(end)])
      if (prepared === undefined) return
      await sql.unsafe(`drop owned by ${role}`)
      await sql.unsafe(`drop role ${role}`)
    },
  }
}

function openStore(pool: Sql): { pool: Sql; store: PostgresStore } {
  return { pool, store: createPostgresStore(pool) }
}

async function end({ pool, store }: { pool: Sql; store: PostgresStore }): Promise<void> {
  await store.close()
  await pool.end()
}

/** The database shows and takes the rows of the connection's organization only, for every statement. */
async function police(role: string): Promise<void> {
  await sql.unsafe(`
    create role ${role} login password 'organization' nosuperuser nobypassrls;
    grant usage on schema business_api to ${role};
    grant select, insert, update, delete on all tables in schema business_api to ${role};
    grant execute on all functions in schema business_api to ${role};`)
  const tables = await sql<{ name: string }[]>`
    select table_name as name from information_schema.columns
    where table_schema = 'business_api' and column_name = 'organization_id'`
  for (const { name } of tables) {
    await sql.unsafe(`
      alter table business_api.${name} enable row level security, force row level security;
      create policy one_organization on business_api.${name}
        using (organization_id = current_setting('business_api.organization'))
        with check (organization_id = current_setting('business_api.organization'));`)
  }
}

function connect(role: string, organizationId: string): Sql {
  const url = new URL(database.url)
  url.username = role
  url.password = 'organization'
  return postgres(url.href, {
    max: 6,
    fetch_types: false,
    connection: { 'business_api.organization': organizationId },
  })
}
