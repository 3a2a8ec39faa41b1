import { columnsOf } from '../resources/columns.ts'
import type { PlainRecord, PlainStore } from '../resources/record-reads.ts'
import { PLAIN_RESOURCES, type PlainSlices } from '../resources/records.ts'
import type { Admissions } from './admission/admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { changeVerb, defineChange } from './statements/change.ts'
import { createVerb, defineCreation } from './statements/creation.ts'
import { defineReads, readSlice } from './statements/read.ts'

/** Built only once. */
const STATEMENTS = Object.entries(PLAIN_RESOURCES).map(([resource, table]) => {
  const statements = defineCreation(table.table, columnsOf(table))
  const change = defineChange<{ readonly set: string }>({ of: table, state: 'status' })
  return { resource, reads: defineReads(table), statements, change }
})

/** Creates the PostgreSQL stores for plain records. */
export function createPlainStores(database: RecordDatabase, admissions: Admissions): PlainSlices {
  const slices = STATEMENTS.map(({ resource, reads, statements, change }) => {
    const store: PlainStore<PlainRecord> = {
      ...readSlice(database, admissions, reads, ({ statuses }) => ({
        states: { column: 'status', values: statuses },
      })),
      create: createVerb(database, { statements, limits: admissions.limits }),
      change: changeVerb(database, change),
    }
    return [resource, store]
  })
  return Object.fromEntries(slices)
}
