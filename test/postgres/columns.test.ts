import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Sql } from 'postgres'
import type * as v from 'valibot'
import { createPlatform } from '../../lib/platform.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import { businessTable, UpdateBusinessInputSchema } from '../../lib/resources/businesses.ts'
import { ClientSchema } from '../../lib/resources/clients.ts'
import { columnsOf } from '../../lib/resources/columns.ts'
import { InvoiceSchema } from '../../lib/resources/invoices.ts'
import { LeadSchema } from '../../lib/resources/leads.ts'
import { ProjectSchema } from '../../lib/resources/projects.ts'
import { ProposalSchema } from '../../lib/resources/proposals.ts'
import { RECORD_KINDS, RECORD_TABLES } from '../../lib/resources/records.ts'
import { useDatabase } from '../_use-database.ts'

// The columns of each kind in lib/resources match the table and the representation in sql/.

/** Columns that all record tables may have in addition. */
const COMMON = ['organization_id', 'latest_changes', 'changed_xid', 'updated_at', 'representation']

const TYPES: Readonly<Record<string, string>> = {
  'timestamp with time zone': 'timestamptz',
  'numeric(15,3)': 'numeric(15, 3)',
  smallint: 'integer',
}

let sql: Sql
let store: PostgresStore
useDatabase((used) => {
  ;({ sql, store } = used)
})

describe('the columns of each record table match those of the lists', () => {
  for (const table of new Set(RECORD_KINDS.map((kind) => RECORD_TABLES[kind].table))) {
    test(table, async () => {
      const actual = await sql<{ name: string; type: string }[]>`
        select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
        where attrelid = ${`business_api.${table}`}::regclass and attnum > 0 and not attisdropped
          and attname <> all (${COMMON})`
      const listed = RECORD_KINDS.map((kind) => RECORD_TABLES[kind])
        .filter((record) => record.table === table)
        .flatMap((record) => columnsOf(record).map(({ name, type }) => `${name} ${type}`))
      assert.deepEqual(listed.sort(), actual.map(({ name, type }) => `${name} ${TYPES[type] ?? type}`).sort())
    })
  }
})

test('a change of a business can set the columns of its input', () => {
  const changeable = columnsOf(businessTable).filter(({ isChangeable }) => isChangeable)
  assert.deepEqual(
    changeable.map(({ field }) => field),
    Object.keys(UpdateBusinessInputSchema.entries),
  )
})

test('every stored representation has the fields of the schema in the same order', async () => {
  const org = 'org_columns'
  const platform = createPlatform(store)
  const { business } = await platform.clients.create(org, { name: 'Atlas' })
  await platform.leads.create(org, { businessId: business.id })
  await platform.proposals.create(org, { title: 'Site', total: 1, currency: 'EUR' })
  await platform.invoices.create(org, { currency: 'EUR', total: '1', dueDate: '2099-01-01T00:00:00Z' })
  await platform.projects.create(org, { name: 'Site', billingType: 'fixed', value: 1 })
  const schemas: Readonly<Record<string, v.ObjectSchema<v.ObjectEntries, undefined>>> = {
    businesses: ClientSchema,
    leads: LeadSchema,
    proposals: ProposalSchema,
    invoices: InvoiceSchema,
    projects: ProjectSchema,
  }
  for (const [table, { entries }] of Object.entries(schemas)) {
    const [row] = await sql`select representation from ${sql(`business_api.${table}`)}`
    const shown = JSON.parse(row?.representation)
    assert.deepEqual(Object.keys(shown), Object.keys(entries), table)
    if (table !== 'businesses') continue
    assert.deepEqual(Object.keys(shown.business), Object.keys(ClientSchema.entries.business.entries))
  }
})
