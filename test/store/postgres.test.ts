import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { assertRepresentations } from '../postgres/_representations.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'

// The contract on PostgreSQL, on pools of the store's own. Runs of other kinds stand in files of their own, because files run at
// the same time.

let database: TestDatabase
let sql: Sql
let store: PostgresStore
let secondStore: PostgresStore

before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
  store = createPostgresStore(database.url)
  secondStore = createPostgresStore(database.url)
})

after(async () => {
  await Promise.all([store.close(), secondStore.close()])
  await database.drop()
})

describeStoreContract({
  name: 'PostgreSQL',
  runner: { describe, test },
  store: () => store,
  secondStore: () => secondStore,
  events: (organizationId) => readEventsOf(sql, organizationId),
  letTimePass: (organizationId, ms) => letTimePass(sql, organizationId, ms),
})

// Every verb of the contract has run by now, with values of all kinds.
test('PostgreSQL stores the representations that are computed anew', () => assertRepresentations(sql))
