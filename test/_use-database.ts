import { after, before } from 'node:test'
import type { Sql } from 'postgres'
import { createPostgresStore, type PostgresStore } from '../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from './_database.ts'

interface Used {
  readonly database: TestDatabase
  /** Connections of the tests' own, up to `max`. */
  readonly sql: Sql
  readonly store: PostgresStore
}

/** Gives the tests of a file, or of a suite, a database of their own with a store, which end after them. */
export function useDatabase(take: (used: Used) => void, max = 10): void {
  let used: Used
  before(async () => {
    const database = await createTestDatabase()
    used = { database, sql: database.sql({ max }), store: createPostgresStore(database.url) }
    take(used)
  })
  after(async () => {
    await used.store.close()
    await used.database.drop()
  })
}
