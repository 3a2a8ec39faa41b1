import { columnsOf, idOf } from '../resources/columns.ts'
import {
  type ImportedRecord,
  type ImportOutcome,
  type ImportRefusal,
  type ImportState,
  type ImportStore,
  REFERENCES,
  UNIQUE_FIELDS,
} from '../resources/imports.ts'
import { RECORD_KINDS, RECORD_TABLES, type RecordKind } from '../resources/records.ts'
import type { RecordDatabase } from './connection/database.ts'
import { CHANGED_NOW } from './statements/change.ts'
import { namesOf } from './statements/columns.ts'
import { callFor } from './statements/statement.ts'

// An import's steps are generated from the columns of each record kind, and run in order by an SQL function (see
// sql/18-imports.sql). $1 is the organization, $2 has the given records by kind, and $3 has the known rows.

/** Creates the PostgreSQL store for imports. */
export function createImportStore(database: RecordDatabase): ImportStore {
  return {
    async write(organizationId, records) {
      const batch = JSON.stringify(toRows(records))
      const call = 'import_records(text, jsonb, jsonb)'
      return readOutcome(
        await callFor(database, organizationId, call, organizationId, batch, STEPS),
        records.length,
      )
    },
  }
}

/** Builds a table of the given records of one kind, with a column for each field. */
function givenRows(kind: RecordKind, name = 'g'): string {
  const fields = columnsOf(RECORD_TABLES[kind]).map(({ field, type }) => `"${field}" ${type}`)
  const owner = kind === 'client' ? ['"businessId" text'] : []
  return `pg_catalog.jsonb_to_recordset($2 -> '${kind}') as ${name} ("row" integer, ${[...fields, ...owner].join(', ')})`
}

/** Builds a subquery for the stored record whose column equals a field's value, if there is one. */
function storedRow(kind: RecordKind, columns: string, column: string, field: string): string {
  return `lateral (
    select ${columns} from business_api.${RECORD_TABLES[kind].table} record
    where record.organization_id = $1 and record.${column} = g."${field}"
    limit 1
  ) as stored`
}

/** Selects the known rows, with `true` if the stored values are the same. Exported timestamps have milliseconds. */
function compare(kind: RecordKind): string {
  const columns = columnsOf(RECORD_TABLES[kind])
  const isSame = columns.map(({ field, name, type }) => {
    const stored =
      type === 'timestamptz' ? `pg_catalog.date_trunc('milliseconds', record.${name})` : `record.${name}`
    return `${stored} is not distinct from g."${field}"`
  })
  const owner = kind === 'client' ? ['record.id = g."businessId"'] : []
  const same = `${[...isSame, ...owner].join(' and ')} as is_same`
  return `
    select pg_catalog.jsonb_object_agg(g."row", stored.is_same) from ${givenRows(kind)}
    cross join ${storedRow(kind, same, idOf(RECORD_TABLES[kind]), 'id')}`
}

const IS_NEW = 'not $3 ? g."row"::text'

/** A new payment whose invoice is different counts as different too, because both are skipped. */
const COMPARE_INVOICES = `
  select pg_catalog.jsonb_object_agg(g."row", false)
  from ${givenRows('payment')} join ${givenRows('invoice', 'own')} on own.id = g."invoiceId"
  where ${IS_NEW} and $3 ->> own."row"::text = 'false'`

/** Selects rejected rows with the reason. */
function refuse(reason: string, from: string): string {
  return `select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('row', g."row", 'reason', ${reason})) from ${from}`
}

/** Rejects references to records that are neither stored nor part of the batch. */
function refuseMissing({ kind, field, to, refusal }: (typeof REFERENCES)[number]): string {
  return refuse(
    `'${refusal}'`,
    `${givenRows(kind)} left join ${storedRow(to, '1 as one', 'id', field)} on true
    where ${IS_NEW} and stored.one is null
      and not exists (select 1 from ${givenRows(to, 'own')} where own.id = g."${field}")`,
  )
}

/**
 * Rejects unique values that belong to another record. A record with the same ID doesn't count, since another
 * transaction may have written it after the comparison.
 */
function refuseTaken({ kind, field, refusal }: (typeof UNIQUE_FIELDS)[number]): string {
  const id = `record.${idOf(RECORD_TABLES[kind])} as id`
  return refuse(
    `'${refusal}'`,
    `${givenRows(kind)} cross join ${storedRow(kind, id, kind === 'client' ? 'id' : field, field)}
    where ${IS_NEW} and stored.id <> g.id`,
  )
}

/** Rejects payments with too many decimal places, or that add up to more than the invoice's `amountPaid`. */
const REFUSE_PAYMENTS = `
  with payment as (select * from ${givenRows('payment')}),
  invoice as (
    select
      g."invoiceId" as id, coalesce(stored.minor_units, own."minorUnits") as minor_units,
      coalesce(stored.amount_paid, own."amountPaid") as amount_paid, coalesce(stored.paid, 0) as paid
    from (select distinct "invoiceId" from payment) as g
    left join ${givenRows('invoice', 'own')} on own.id = g."invoiceId"
    left join ${storedRow(
      'invoice',
      `record.minor_units, record.amount_paid, (
        select sum(other.amount) from business_api.payments other
        where other.organization_id = $1 and other.invoice_id = record.id
          and not other.id = any (array(select payment.id from payment))
          and other.amount > 0 and other.reversed_by is null
      ) as paid`,
      'id',
      'invoiceId',
    )} on true
  ),
  judged as (
    select
      payment."row", payment.amount <> pg_catalog.round(payment.amount, invoice.minor_units) as is_too_fine,
      invoice.paid + sum(payment.amount) filter (
        where coalesce(($3 ->> payment."row"::text)::boolean, true) and payment.amount > 0 and payment."reversedBy" is null
      ) over (partition by invoice.id) > invoice.amount_paid as is_overpaid
    from payment join invoice on invoice.id = payment."invoiceId"
  )
  ${refuse(
    "case when g.is_too_fine then 'too_fine' else 'overpaid' end",
    `judged as g where ${IS_NEW} and (g.is_too_fine or g.is_overpaid)`,
  )}`

function insert(kind: RecordKind): string {
  const { table } = RECORD_TABLES[kind]
  const columns = columnsOf(RECORD_TABLES[kind])
  const values = columns.map(({ field }) =>
    kind === 'payment' && field === 'amount' ? EXACT_AMOUNT : `g."${field}"`,
  )
  return `
    insert into business_api.${table} (organization_id, ${namesOf(columns)})
    select $1, ${values.join(', ')} from ${givenRows(kind)} where ${IS_NEW}
    on conflict do nothing`
}

/** A payment amount, rounded to the currency's decimal places. */
const EXACT_AMOUNT = `pg_catalog.round(g.amount, (
  select i.minor_units from business_api.invoices i where i.organization_id = $1 and i.id = g."invoiceId"
))`

const WRITE_CLIENTS = `
  update business_api.businesses record
     set ${columnsOf(RECORD_TABLES.client)
       .map(({ field, name }) => `${name} = g."${field}"`)
       .join(', ')}, ${CHANGED_NOW}
    from ${givenRows('client')}
   where ${IS_NEW} and record.organization_id = $1 and record.id = g."businessId" and record.client_id is null`

/** The number series in the batch, each with its highest new number. */
const SERIES = `(
  select g.series, max(g.count) filter (where ${IS_NEW}) as count
  from pg_catalog.jsonb_to_recordset(($2 -> 'invoice') || ($2 -> 'proposal')) as g ("row" integer, series text, count bigint)
  where g.series is not null
  group by g.series
)`

/** An import's statements, by step. */
const STEPS = JSON.stringify({
  lock: [
    // Locked in name order before anything is read, so we see a number that another transaction is about to assign.
    `insert into business_api.number_series as s (organization_id, series, last)
     select $1, g.series, 0 from ${SERIES} as g order by g.series
     on conflict (organization_id, series) do update set last = s.last`,
    // Same for invoices, since their payments are added up.
    `select 1 from business_api.invoices i
      where i.organization_id = $1 and i.id = any (array(select g."invoiceId" from ${givenRows('payment')}))
      order by i.id for update`,
  ],
  compare: [...RECORD_KINDS.map(compare), COMPARE_INVOICES],
  refuse: [...REFERENCES.map(refuseMissing), ...UNIQUE_FIELDS.map(refuseTaken), REFUSE_PAYMENTS],
  write: RECORD_KINDS.map((kind) => (kind === 'client' ? WRITE_CLIENTS : insert(kind))),
  count: [
    `update business_api.number_series s set last = greatest(s.last, g.count) from ${SERIES} as g
      where s.organization_id = $1 and s.series = g.series`,
  ],
})

/** The function's result, by row. */
interface ImportResult {
  readonly refused?: readonly { readonly row: number; readonly reason: ImportRefusal }[]
  readonly known?: Readonly<Record<string, boolean>>
}

function readOutcome({ refused, known = {} }: ImportResult, count: number): ImportOutcome {
  if (refused) {
    const refusals = refused.map(({ row, reason }) => ({ index: row, reason }))
    return { outcome: 'refused', refusals: refusals.sort((one, other) => one.index - other.index) }
  }
  const states = Array.from({ length: count }, (_, row): ImportState => {
    const isSame = known[row]
    if (isSame === undefined) return 'added'
    return isSame ? 'known' : 'different'
  })
  return { outcome: 'imported', states }
}

/** Returns a batch's rows by kind. `row` is the record's position in the batch. */
function toRows(records: readonly ImportedRecord[]): Readonly<Record<string, readonly object[]>> {
  const rows = records.map(({ kind, record }, row) => {
    const { place, ...fields } = { place: null, ...record }
    return { kind, fields: { row, ...fields, ...place } }
  })
  const ofKind = (kind: RecordKind) => rows.filter((row) => row.kind === kind).map(({ fields }) => fields)
  return Object.fromEntries(RECORD_KINDS.map((kind) => [kind, ofKind(kind)]))
}
