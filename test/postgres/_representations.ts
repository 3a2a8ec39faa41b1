import assert from 'node:assert/strict'
import type { Sql } from 'postgres'

// The representations computed anew from the columns, by row_to_json: the measure of the stored representations.

const TIMESTAMP = `'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`

function timestamp(column: string): string {
  return `to_char(${column} at time zone 'UTC', ${TIMESTAMP})`
}

/** The fields of each stored representation, in order, by the name of the list. */
export const STORED_FIELDS: Readonly<Record<string, string>> = {
  clients: `
    client_id as id, client_status as status, trim_scale(total_revenue) as "totalRevenue",
    trim_scale(monthly_revenue) as "monthlyRevenue", ${timestamp('converted_at')} as "convertedAt",
    (select business from (select id, name, category, city, email, phone) as business) as business`,
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

/** The rows of a list. */
export function rowsOf(list: string): string {
  return list === 'clients' ? 'business_api.businesses' : `business_api.${list}`
}

/**
 * Asserts that all stored representations of a database equal representations computed anew, and that the database has records.
 */
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

/** Computes the page of an organization's records anew. */
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
