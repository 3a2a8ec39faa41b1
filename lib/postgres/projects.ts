import { columnsOf } from '../resources/columns.ts'
import { type ProjectStore, projectTable } from '../resources/projects.ts'
import type { Admissions } from './admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineChange, isAllowed, setOf, writeChange } from './statements/change.ts'
import {
  afterChange,
  assign,
  type ColumnValues,
  insertInto,
  represent,
  valuesOf,
} from './statements/columns.ts'
import { type CreationValues, creationValues, defineWrite, published } from './statements/key-reservation.ts'
import { defineList } from './statements/list.ts'
import { type RecordRows, readSlice, withUpdatedAt } from './statements/read.ts'
import { writeCreation } from './statements/write.ts'

const TABLE = 'business_api.projects'
const COLUMNS = columnsOf(projectTable)

const LIST = defineList(TABLE)

const RECORD: RecordRows = { rows: TABLE, representation: withUpdatedAt('record.representation') }

const CREATE = defineWrite<CreationValues & ColumnValues>((reserve) => ({
  steps: [reserve(), `project as (${insertInto('projects', COLUMNS, 'reserved')})`, published('project')],
  answer: {},
}))

const CHANGE = defineChange<{ readonly set: string }>({
  table: TABLE,
  state: 'status',
  after: [`after as (select ${afterChange(COLUMNS)} from before where ${isAllowed('status')})`],
  representation: represent(projectTable, 'after'),
  set: assign(COLUMNS),
})

/** Projects in PostgreSQL. */
export function createProjectStore(database: RecordDatabase, admissions: Admissions): ProjectStore {
  return {
    ...readSlice(database, admissions, {
      list: LIST,
      record: RECORD,
      wants: ({ statuses }) => ({ states: { column: 'status', values: statuses } }),
    }),

    create(creation) {
      const { record } = creation
      const values = { ...creationValues(creation, record.id), ...valuesOf(COLUMNS, record) }
      return writeCreation(database, creation, CREATE, values)
    },

    change: (given) => writeChange(database, given, CHANGE, { set: setOf({ ...given.set }) }),
  }
}
