import assert from 'node:assert/strict'
import type { Sql } from 'postgres'

// The representations computed anew from the columns, by row_to_json: the measure of the stored representations.

const TIMESTAMP = `'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`

function timestamp(column: string): string {
  return `to_char(${column} at time zone 'UTC', ${TIMESTAMP})`
}

/** The fields of each table's stored representation, in order. */
export const STORED_FIELDS: Readonly<Record<string, string>> = {
  businesses: 'id, name, category, city, email, phone',
  clients: `
    id, status, trim_scale(total_revenue) as "totalRevenue", trim_scale(monthly_revenue) as "monthlyRevenue",
    ${timestamp('converted_at')} as "convertedAt"`,
  leads: `
    id, stage, trim_scale(lead_score) as "leadScore", score_band as "scoreBand",
    trim_scale(expected_value) as "expectedValue", ${timestamp('created_at')} as "createdAt"`,
  invoices: `
    id, number, status, currency, ${timestamp('issue_date')} as "issueDate", ${timestamp('due_date')} as "dueDate",
    round(total, minor_units)::text as "total", round(amount_paid, minor_units)::text as "amountPaid",
    round(total - amount_paid, minor_units)::text as "amountDue"`,
  proposals: `
    id, number, title, status, version, trim_scale(total) as total, trim_scale(monthly_total) as "monthlyTotal", currency`,
  projects: 'id, name, status, billing_type as "billingType", trim_scale(value) as value',
}

const BUSINESS = `
  (
    select nested from (
      select ${STORED_FIELDS.businesses} from business_api.businesses business
      where business.organization_id = $1 and business.id = record.business_id
    ) as nested
  ) as business`

/**
 * Asserts that all stored representations of a database equal representations computed anew, and that the database has records.
 */
export async function assertRepresentations(sql: Sql): Promise<void> {
  let compared = 0
  for (const [table, fields] of Object.entries(STORED_FIELDS)) {
    const rows = await sql.unsafe<{ id: string; stored: string; computed: string }[]>(`
      select id, representation as stored,
        (select row_to_json(fields)::text from (select ${fields}) as fields) as computed
      from business_api.${table}`)
    for (const { id, stored, computed } of rows) assert.equal(stored, computed, id)
    compared += rows.length
  }
  assert.notEqual(compared, 0)
}

/**
 * Asserts the rules of copies that hold whatever SQL by hand has written: every copy of a business is equal to `copied` of the business, also
 * the copy of a client that has another business since.
 */
export async function assertCopies(sql: Sql): Promise<void> {
  for (const { id } of await sql<
    { id: string }[]
  >`select distinct organization_id as id from business_api.clients`) {
    const rows = await sql<{ id: string; copy: string; copied: string | null }[]>`
      select client.id, client.business_copy as copy, business.copied
      from business_api.clients client
      join business_api.businesses business
        on business.organization_id = ${id}::text and business_api.copy_key(${id}::text, business.id) = client.copy_of
      where client.organization_id = ${id}::text and client.business_copy is not null`
    for (const row of rows) assert.equal(row.copy, row.copied, row.id)
  }
}

/**
 * Asserts that clients have copies of their businesses, except for a few: a conversion or import beside another transaction that has
 * locked the business gives the client no copy.
 */
export async function assertMostCopies(sql: Sql): Promise<void> {
  await assertCopies(sql)
  let clients = 0
  let copies = 0
  for (const { id } of await sql<
    { id: string }[]
  >`select distinct organization_id as id from business_api.clients`) {
    const rows = await sql<{ id: string; copy: string | null; representation: string }[]>`
      select client.id, case when client.has_copy then client.business_copy end as copy, business.representation
      from business_api.clients client
      join business_api.businesses business on business.organization_id = ${id}::text and business.id = client.business_id
      where client.organization_id = ${id}::text`
    for (const { id, copy, representation } of rows) {
      clients++
      if (copy === null) continue
      copies++
      assert.equal(copy, representation, id)
    }
  }
  assert.ok(clients - copies <= Math.max(2, clients / 10), `${copies} of ${clients} clients have a copy`)
}

/** Computes the page of an organization's records anew. */
export async function computePage(sql: Sql, table: string, organizationId: string): Promise<string> {
  const fields = `${STORED_FIELDS[table]} ${table === 'clients' ? `, ${BUSINESS}` : ''}`
  const [row] = await sql.unsafe<{ page: string }[]>(
    `
    select '[' || string_agg(
      (select row_to_json(fields)::text from (select ${fields}) as fields), ',' order by record.id desc
    ) || ']' as page
    from business_api.${table} record where organization_id = $1`,
    [organizationId],
  )
  return row?.page ?? '[]'
}
