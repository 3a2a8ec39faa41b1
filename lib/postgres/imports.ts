import { columnsOf, idOf } from '../resources/columns.ts'
import type {
  ImportedRecord,
  ImportOutcome,
  ImportRefusal,
  ImportState,
  ImportStore,
} from '../resources/imports.ts'
import { RECORD_KINDS, RECORD_TABLES, type RecordKind } from '../resources/record-tables.ts'
import type { RecordDatabase } from './connection/database.ts'
import { CHANGED_NOW } from './statements/change.ts'
import { namesOf } from './statements/columns.ts'

// The work of an import is a function of the schema: see sql/18-imports.sql. The statements that differ by the columns of a kind are
// built here. In them $1 is the organization, $2 the given records by kind, and $3 the known rows.

/** Creates the slice of imports in PostgreSQL. */
export function createImportStore(database: RecordDatabase): ImportStore {
  return {
    async write(organizationId, records) {
      const batch = JSON.stringify(toRows(records))
      const [answer] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
            select
              business_api.import_records(
                ${organizationId}::text, ${batch}::text::jsonb, ${STEPS}::text::jsonb
              )::text,
              ${answerTag}`,
      )
      return readOutcome(JSON.parse(answer ?? '{}'), records.length)
    },
  }
}

/** The given records of a kind, as rows `g` with a column for each field. */
function givenRows(kind: RecordKind): string {
  const fields = columnsOf(RECORD_TABLES[kind]).map(({ field, type }) => `"${field}" ${type}`)
  const owner = kind === 'client' ? ['"businessId" text'] : []
  return `pg_catalog.jsonb_to_recordset($2 -> '${kind}') as g ("row" integer, ${[...fields, ...owner].join(', ')})`
}

/** Gives the known rows, each with true if the stored record has the same values. Exports show times in milliseconds. */
function compare(kind: RecordKind): string {
  const columns = columnsOf(RECORD_TABLES[kind])
  const isSame = columns.map(({ field, name, type }) => {
    const stored =
      type === 'timestamptz' ? `pg_catalog.date_trunc('milliseconds', record.${name})` : `record.${name}`
    return `${stored} is not distinct from g."${field}"`
  })
  const owner = kind === 'client' ? ['record.id = g."businessId"'] : []
  return `
    select pg_catalog.jsonb_object_agg(g."row", stored.is_same)
    from ${givenRows(kind)}
    cross join lateral (
      select ${[...isSame, ...owner].join(' and ')} as is_same
      from business_api.${RECORD_TABLES[kind].table} record
      where record.organization_id = $1 and record.${idOf(RECORD_TABLES[kind])} = g.id
      limit 1
    ) as stored`
}

const IS_NEW = 'not $3 ? g."row"::text'

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

/** The amount of a payment with the decimals of the currency. */
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

/** The statements that compare the given records of each kind with the stored records, and those that write new records. */
const STEPS = JSON.stringify({
  compare: RECORD_KINDS.map(compare),
  write: RECORD_KINDS.map((kind) => (kind === 'client' ? WRITE_CLIENTS : insert(kind))),
})

/** The answer of the function, by rows. */
interface ImportResult {
  readonly refused?: readonly { readonly row: number; readonly reason: ImportRefusal }[]
  readonly known?: Readonly<Record<string, boolean>>
}

function readOutcome({ refused, known = {} }: ImportResult, count: number): ImportOutcome {
  if (refused) {
    return { outcome: 'refused', refusals: refused.map(({ row, reason }) => ({ index: row, reason })) }
  }
  const states = Array.from({ length: count }, (_, row): ImportState => {
    const isSame = known[row]
    if (isSame === undefined) return 'added'
    return isSame ? 'known' : 'different'
  })
  return { outcome: 'imported', states }
}

/** The rows of a batch by kind; `row` is the place of the record in the batch. */
function toRows(records: readonly ImportedRecord[]): Readonly<Record<string, readonly object[]>> {
  const rows = records.map(({ kind, record }, row) => {
    const { place, ...fields } = { place: null, ...record }
    return { kind, fields: { row, ...fields, ...place } }
  })
  const ofKind = (kind: RecordKind) => rows.filter((row) => row.kind === kind).map(({ fields }) => fields)
  return Object.fromEntries(RECORD_KINDS.map((kind) => [kind, ofKind(kind)]))
}
