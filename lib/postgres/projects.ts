import { columnsOf } from '../resources/columns.ts'
import { type ProjectStore, projectTable } from '../resources/projects.ts'
import type { Admissions } from './admission/admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineChange, setOf, writeChange } from './statements/change.ts'
import { valuesOf } from './statements/columns.ts'
import { createVerb, defineCreation } from './statements/creation.ts'
import { defineReads, readSlice } from './statements/read.ts'

const COLUMNS = columnsOf(projectTable)
const READS = defineReads(projectTable)
const CREATE = defineCreation('projects', COLUMNS, { answer: {} })
const CHANGE = defineChange<{ readonly set: string }>({ of: projectTable, state: 'status' })

/** Projects in PostgreSQL. */
export function createProjectStore(database: RecordDatabase, admissions: Admissions): ProjectStore {
  return {
    ...readSlice(database, admissions, READS, ({ statuses }) => ({
      states: { column: 'status', values: statuses },
    })),
    create: createVerb(database, {
      statements: CREATE,
      idOf: ({ id }) => id,
      valuesOf: (record) => valuesOf(COLUMNS, record),
    }),
    change: (given) => writeChange(database, given, CHANGE, { set: setOf(given.set) }),
  }
}
