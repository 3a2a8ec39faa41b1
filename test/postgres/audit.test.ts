import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { newEntry } from '../contract/audit-entry.ts'
import { createPublisher } from '../contract/delivering.ts'
import type { StoreUnderTest } from '../contract/harness.ts'
import { changes, settingsOf } from '../contract/settings-changes.ts'
import { ids } from '../contract/tenant.ts'

let database: TestDatabase
let sql: Sql
let store: PostgresStore
const harness: StoreUnderTest = {
  store: () => store,
  secondStore: () => store,
  events: () => [],
  letTimePass: () => {},
}

before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
  store = createPostgresStore(database.url)
  await sql.unsafe(`
    create function public.refuse() returns trigger language plpgsql as
      $$ begin raise exception 'no room for %', new.subject_id; end $$;
    create trigger refuse before insert on business_api.audit_entries
      for each row when (new.subject_id = 'refused') execute function public.refuse();`)
})

after(async () => {
  await store.close()
  await database.drop()
})

for (const [name, prepare] of Object.entries(changes)) {
  test(`${name} doesn't change anything if its entry can't be written`, async (t) => {
    const tenant = await createPublisher(harness, t)
    const { change } = await prepare(tenant)
    const limits = () =>
      sql`select per_second, burst from business_api.organization_limits where organization_id = ${tenant.id}`
    const settings = [await settingsOf(tenant), [...(await limits())]]
    await assert.rejects(change(store, newEntry({ subjectId: 'refused' })), /no room for refused/)
    assert.deepEqual([await settingsOf(tenant), [...(await limits())]], settings)
    await change(store, newEntry({ subjectId: ids('we') }))
    assert.notDeepEqual([await settingsOf(tenant), [...(await limits())]], settings)
  })
}
