import { type BusinessStore, businessTable } from '../resources/businesses.ts'
import { columnsOf } from '../resources/columns.ts'
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
import { getRecord, listRecords, type RecordRows } from './statements/read.ts'
import { writeCreation } from './statements/write.ts'

const COLUMNS = columnsOf(businessTable)

const RECORD: RecordRows = {
  rows: 'business_api.businesses',
  representation: represent(businessTable, 'record'),
}

const CREATE = defineWrite<CreationValues & ColumnValues>((reserve) => ({
  steps: [reserve(), `business as (${insertInto('businesses', COLUMNS, 'reserved')})`, published('business')],
  answer: {},
}))

const CHANGE = defineChange<{ readonly set: string }>({
  table: 'business_api.businesses',
  // A business has no state; the answer needs a column that is never null.
  state: 'id',
  after: [`after as (select ${afterChange(COLUMNS)} from before where ${isAllowed('id')})`],
  representation: represent(businessTable, 'after'),
  set: assign(COLUMNS),
})

/** Businesses in PostgreSQL. */
export function createBusinessRecordStore(database: RecordDatabase): BusinessStore {
  return {
    create(creation) {
      const { record } = creation
      const values = { ...creationValues(creation, record.id), ...valuesOf(COLUMNS, record) }
      return writeCreation(database, creation, CREATE, values)
    },

    list: (organizationId, _filter, limit, before) =>
      listRecords(database, RECORD, organizationId, () => ({ limit, before })),

    get: (organizationId, id) => getRecord(database, RECORD, organizationId, id),
    change: (given) => writeChange(database, given, CHANGE, { set: setOf({ ...given.set }) }),
  }
}
