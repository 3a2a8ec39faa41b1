import assert from 'node:assert/strict'
import type { Sql } from 'postgres'
import { businessTable } from '../../lib/resources/businesses.ts'
import { clientTable } from '../../lib/resources/clients.ts'
import { type ColumnType, columnsOf, type RecordTable } from '../../lib/resources/columns.ts'
import { invoiceTable } from '../../lib/resources/invoices.ts'
import { leadTable } from '../../lib/resources/leads.ts'
import { proposalTable } from '../../lib/resources/proposals.ts'
import { PLAIN_RESOURCES } from '../../lib/resources/records.ts'

// Representations computed from the columns with row_to_json, to be compared with the stored ones.

const TIMESTAMP = `'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`

function timestamp(column: string): string {
  return `to_char(${column} at time zone 'UTC', ${TIMESTAMP})`
}

/** Selects the fields of a kind from its columns, in order. */
function fieldsOf(table: RecordTable): string {
  const fields = columnsOf(table).flatMap(({ field, name, type, isHidden }) =>
    isHidden ? [] : [`${computed(name, type)} as "${field}"`],
  )
  return fields.join(', ')
}

function computed(name: string, type: ColumnType): string {
  if (type === 'timestamptz') return timestamp(name)
  if (type === 'numeric(15, 3)') return `trim_scale(${name})`
  return type === 'numeric' ? `round(${name}, minor_units)::text` : name
}

/** The fields of each stored representation, in order, by the name of the list. */
export const STORED_FIELDS: Readonly<Record<string, string>> = {
  clients: `
    ${fieldsOf(clientTable)},
    (select business from (select ${fieldsOf(businessTable)}) as business) as business`,
  leads: fieldsOf(leadTable),
  invoices: `${fieldsOf(invoiceTable)}, round(total - amount_paid, minor_units)::text as "amountDue"`,
  proposals: fieldsOf(proposalTable),
  ...Object.fromEntries(
    Object.entries(PLAIN_RESOURCES).map(([resource, table]) => [resource, fieldsOf(table)]),
  ),
}

/** The rows of a list. */
export function rowsOf(list: string): string {
  return list === 'clients' ? 'business_api.businesses' : `business_api.${list}`
}

/** Asserts that the database has records and that all stored representations equal computed ones. */
export async function assertRepresentations(sql: Sql): Promise<void> {
  let compared = 0
  for (const [table, fields] of Object.entries(STORED_FIELDS)) {
    const rows = await sql.unsafe<{ id: string; stored: string | null; computed: string | null }[]>(`
      select id, representation as stored,
        (
          select row_to_json(fields)::text from (select ${fields}) as fields
          where ${table === 'clients' ? 'client_id is not null' : 'true'}
        ) as computed
      from ${rowsOf(table)}`)
    for (const { id, stored, computed } of rows) assert.equal(stored, computed, id)
    compared += rows.length
  }
  assert.notEqual(compared, 0)
}

/** Computes a page of an organization's records. */
export async function computePage(sql: Sql, table: string, organizationId: string): Promise<string> {
  const id = table === 'clients' ? 'record.client_id' : 'record.id'
  const [row] = await sql.unsafe<{ page: string }[]>(
    `
    select '[' || string_agg(
      (select row_to_json(fields)::text from (select ${STORED_FIELDS[table]}) as fields), ',' order by ${id} desc
    ) || ']' as page
    from ${rowsOf(table)} record where organization_id = $1 and ${id} is not null`,
    [organizationId],
  )
  return row?.page ?? '[]'
}
