import { businessTable } from '../resources/businesses.ts'
import { type ClientStore, clientTable } from '../resources/clients.ts'
import { columnsOf, snakeCase } from '../resources/columns.ts'
import type { Admissions } from './admission/admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { changeVerb, defineChange } from './statements/change.ts'
import { represent, valuesOf } from './statements/columns.ts'
import { createVerb, defineCreation } from './statements/creation.ts'
import { defineReads, readSlice } from './statements/read.ts'

const BUSINESS_COLUMNS = columnsOf(businessTable)
const COLUMNS = columnsOf(clientTable)

/** Clients, with the columns of a record table. A view would bypass row-level security before PostgreSQL 15. */
export const CLIENT_ROWS = `(
  select
    organization_id, id as business_id, ${COLUMNS.map(({ name, field }) => `${name} as ${snakeCase(field)}`).join(', ')},
    changed_xid, updated_at, representation
  from business_api.businesses
  where client_id is not null
)`

const READS = defineReads(clientTable, { rows: CLIENT_ROWS })

const CREATE = defineCreation('businesses', [...BUSINESS_COLUMNS, ...COLUMNS])

const CHANGE = defineChange<{ readonly set: string }>({
  of: clientTable,
  state: 'client_status',
  representation: representClient('after', 'before'),
  from: 'before, after',
})

/** Creates the PostgreSQL store for clients and their businesses. */
export function createClientStore(database: RecordDatabase, admissions: Admissions): ClientStore {
  return {
    ...readSlice(database, admissions, READS, ({ statuses, businessId }) => ({
      states: { column: 'status', values: statuses },
      unique: { column: 'business_id', value: businessId },
    })),
    create: createVerb(database, {
      statements: CREATE,
      limits: admissions.limits,
      // `Object.assign` because spreading this many fields is slow.
      valuesOf: (record) =>
        Object.assign(valuesOf(BUSINESS_COLUMNS, record.business), valuesOf(COLUMNS, record)),
    }),
    change: changeVerb(database, CHANGE),
  }
}

/** Builds a client's representation from the client row and the business row. */
export function representClient(client: string, business: string): string {
  return represent(clientTable, client, { business: represent(businessTable, business) })
}
