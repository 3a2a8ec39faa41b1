import type {
  ImportedRecord,
  ImportOutcome,
  ImportRefusal,
  ImportState,
  ImportStore,
} from '../resources/imports.ts'
import type { RecordDatabase } from './connection/database.ts'
import { meaningOf } from './statements/write.ts'

// The work of an import is a function of the schema: see sql/18-imports.sql.

/** Creates the slice of imports in PostgreSQL. */
export function createImportStore(database: RecordDatabase): ImportStore {
  return {
    async write(organizationId, records) {
      const batch = JSON.stringify(toRows(records))
      const [answer] = await database
        .rowFor(
          organizationId,
          (sql, answerTag) => sql`
            select
              business_api.import_records(${organizationId}::text, ${batch}::text::jsonb)::text, ${answerTag}`,
        )
        .catch((error) => {
          throw meaningOf(error)
        })
      return readOutcome(JSON.parse(answer ?? '{}'), records.length)
    },
  }
}

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

type ImportRow = Readonly<Record<string, unknown>>

/** The rows of a batch by table; `row` is the place of the record in the batch. */
function toRows(records: readonly ImportedRecord[]): Readonly<Record<string, readonly ImportRow[]>> {
  const rows: Record<ImportedRecord['kind'], ImportRow[]> = {
    business: [],
    client: [],
    lead: [],
    proposal: [],
    invoice: [],
    payment: [],
    project: [],
  }
  for (const [row, imported] of records.entries()) {
    rows[imported.kind].push({ row, ...toRow(imported) })
  }
  return rows
}

function toRow(imported: ImportedRecord): ImportRow {
  switch (imported.kind) {
    case 'proposal': {
      const { place, signature, ...record } = imported.record
      return { ...record, ...place, ...signature }
    }
    case 'invoice': {
      const { place, ...record } = imported.record
      return { ...record, ...place }
    }
    default:
      return { ...imported.record }
  }
}
