import { type BusinessStore, businessTable } from '../resources/businesses.ts'
import { columnsOf } from '../resources/columns.ts'
import type { Admissions } from './admission/admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { changeVerb, defineChange } from './statements/change.ts'
import { represent } from './statements/columns.ts'
import { createVerb, defineCreation } from './statements/creation.ts'
import { getRecord, listRecords, type RecordRows } from './statements/read.ts'

const COLUMNS = columnsOf(businessTable)

const RECORD: RecordRows = {
  rows: 'business_api.businesses',
  representation: represent(businessTable, 'record'),
}

const CREATE = defineCreation('businesses', COLUMNS)

// Businesses have no state, but the result needs a column that's never null.
const CHANGE = defineChange<{ readonly set: string }>({ of: businessTable, state: 'id' })

/** Creates the PostgreSQL store for businesses. */
export function createBusinessRecordStore(
  database: RecordDatabase,
  { limits }: Pick<Admissions, 'limits'>,
): BusinessStore {
  return {
    create: createVerb(database, { statements: CREATE, limits }),

    list: (organizationId, _filter, limit, before) =>
      listRecords(database, RECORD, organizationId, () => ({ limit, before })),

    get: (organizationId, id) => getRecord(database, RECORD, organizationId, id),
    change: changeVerb(database, CHANGE),
  }
}
