import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { assertRepresentations } from '../postgres/_representations.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'

// The contract on a host's pools with a stricter default than the statements need: statements are then repeated, not refused.

const STRICT = {
  fetch_types: false,
  connection: { default_transaction_isolation: 'repeatable read' },
} as const

let database: TestDatabase
let sql: Sql
let store: PostgresStore
let secondStore: PostgresStore

before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
  store = createPostgresStore(database.sql(STRICT))
  secondStore = createPostgresStore(database.sql(STRICT))
})

after(async () => {
  await Promise.all([store.close(), secondStore.close()])
  await database.drop()
})

describeStoreContract({
  name: 'PostgreSQL, repeatable read by default,',
  runner: { describe, test },
  store: () => store,
  secondStore: () => secondStore,
  events: (organizationId) => readEventsOf(sql, organizationId),
  letTimePass: (organizationId, ms) => letTimePass(sql, organizationId, ms),
})

test('PostgreSQL, repeatable read by default, stores the representations that are computed anew', () =>
  assertRepresentations(sql))
