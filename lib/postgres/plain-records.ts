import { columnsOf, type RecordTable } from '../resources/columns.ts'
import type { PlainRecord, PlainStore } from '../resources/record-reads.ts'
import { PLAIN_TABLES, type PlainSlices } from '../resources/records.ts'
import type { Admissions } from './admission/admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { changeVerb, defineChange } from './statements/change.ts'
import { createVerb, defineCreation } from './statements/creation.ts'
import { defineReads, readSlice } from './statements/read.ts'

type CreatePlainStore = (database: RecordDatabase, admissions: Admissions) => PlainStore<PlainRecord>

/** Builds the texts of the statements once. */
function definePlainStore(table: RecordTable): CreatePlainStore {
  const columns = columnsOf(table)
  const reads = defineReads(table)
  const statements = defineCreation(table.table, columns, { answer: {} })
  const change = defineChange<{ readonly set: string }>({ of: table, state: 'status' })
  return (database, admissions) => ({
    ...readSlice(database, admissions, reads, ({ statuses }) => ({
      states: { column: 'status', values: statuses },
    })),
    create: createVerb(database, {
      statements,
    }),
    change: changeVerb(database, change),
  })
}

const STORES = Object.entries(PLAIN_TABLES).map(
  ([resource, table]) => [resource, definePlainStore(table)] as const,
)

/** Creates the slices of plain records in PostgreSQL. */
export function createPlainStores(database: RecordDatabase, admissions: Admissions): PlainSlices {
  const slices = STORES.map(([resource, create]) => [resource, create(database, admissions)])
  return Object.fromEntries(slices)
}
