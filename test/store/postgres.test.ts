import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createDatabase } from '../../lib/postgres/connection/database.ts'
import { createDistributionReader } from '../../lib/postgres/distributed/state.ts'
import { createStoreOn } from '../../lib/postgres/store.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { findRefusedForms } from '../postgres/_distributed-forms.ts'
import { readFacts } from '../postgres/_distribution-facts.ts'
import { type RecordingDatabase, recordStatements } from '../postgres/_recording.ts'
import { assertMostCopies, assertRepresentations } from '../postgres/_representations.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'

// The contract on PostgreSQL, on pools of the store's own. Runs of other kinds stand in files of their own, because files run at
// the same time.

let database: TestDatabase
let sql: Sql
let recording: RecordingDatabase
let store: PostgresStore
let secondStore: PostgresStore

before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
  recording = recordStatements(createDatabase(database.url))
  store = createStoreOn(recording, createDistributionReader(recording))
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

test('PostgreSQL gives clients copies of their businesses', () => assertMostCopies(sql))

/** The statements for all organizations at once, and lists of changes: by a part of the text, with the file. */
const KNOWN: readonly (readonly [part: string, file: string])[] = [
  ['from business_api.invoices\n        where status in', 'invoices.ts, markOverdue() of all organizations'],
  ['as "isPreviousExpired"', 'endpoint-secrets.ts, listSealed(): a read of all shards'],
  ['expiring_secret as (', 'notices.ts, claimExpiring()'],
]

test('PostgreSQL store sends statements in the forms that a distributed database takes', async () => {
  const facts = await readFacts(sql)
  const refused = [...recording.statements.keys()].flatMap((text) => {
    const forms = findRefusedForms(text, facts)
    return forms.length === 0 ? [] : [{ text, forms }]
  })
  const unknown = refused.filter(({ text }) => !KNOWN.some(([part]) => text.includes(part)))
  assert.deepEqual(unknown, [])
  const gone = KNOWN.filter(([part]) => !refused.some(({ text }) => text.includes(part)))
  assert.deepEqual(gone, [], 'a statement of the list uses no refused form')
})
