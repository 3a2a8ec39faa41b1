import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { unavailable } from '../../lib/postgres/connection/driver-faults.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'

const database = await createTestDatabase()
after(() => database.drop())
const sql = database.sql({ max: 2 })

const REASONS = [
  {
    name: 'a lock that another transaction holds',
    message: 'Cannot run a statement because another transaction held a lock for too long',
    within: (work: () => Promise<void>): Promise<unknown> =>
      sql.begin(async (tx) => {
        await tx`lock table business_api.api_keys in access exclusive mode`
        await work()
      }),
  },
  {
    name: 'a read-only server',
    message:
      'Cannot run a statement because the server is read-only: is it a standby, or is default_transaction_read_only set?',
    async within(work: () => Promise<void>): Promise<void> {
      const name = sql(new URL(database.url).pathname.slice(1))
      await sql`alter database ${name} set default_transaction_read_only = on`
      try {
        await work()
      } finally {
        await sql.begin('read write', (tx) => tx`alter database ${name} reset default_transaction_read_only`)
      }
    },
  },
]

for (const { name, message, within } of REASONS) {
  test(`${name}: the error says so, and not that PostgreSQL can't be reached`, async (t) => {
    const store = createPostgresStore(database.url, { statementTimeoutMs: 1000 })
    t.after(() => store.close())
    const { apiKeys } = createDeveloperSettings(store)
    await within(() =>
      assert.rejects(apiKeys.create('org_1', { name: 'Website', scopes: ['leads:read'] }), {
        code: 'store_unavailable',
        message,
      }),
    )
  })
}

test("a parent that is deleted in every retry: the error says so, and not that PostgreSQL can't be reached", async () => {
  const error: unknown = await sql
    .begin(async (tx) => {
      await tx`create temp table parents (id integer primary key) on commit drop`
      await tx`create temp table children (id integer references parents) on commit drop`
      await tx`insert into children values (1)`
    })
    .catch((reason) => reason)
  assert.equal(Reflect.get(Object(error), 'code'), '23503')
  assert.equal(
    unavailable(error).message,
    'Cannot run a statement because another transaction deleted the record that it belongs to',
  )
})
