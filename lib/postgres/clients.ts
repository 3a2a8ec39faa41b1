import { businessTable } from '../resources/businesses.ts'
import { type Client, type ClientChanges, type ClientStore, clientTable } from '../resources/clients.ts'
import { columnsOf, snakeCase } from '../resources/columns.ts'
import type { Creation } from '../writes/creation.ts'
import { declareOneStep } from '../writes/one-step.ts'
import type { Admissions } from './admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineAdmittedWrite } from './statements/admitted-write.ts'
import { defineChange, isAllowed, setOf, writeChange } from './statements/change.ts'
import {
  afterChange,
  assign,
  type ColumnValues,
  insertInto,
  represent,
  valuesOf,
} from './statements/columns.ts'
import {
  type CreationValues,
  creationValues,
  defineWrite,
  published,
  type Reserve,
  type WriteParts,
} from './statements/key-reservation.ts'
import { defineList } from './statements/list.ts'
import { type RecordRows, readSlice, withUpdatedAt } from './statements/read.ts'
import { writeCreation } from './statements/write.ts'

const TABLE = 'business_api.businesses'
const BUSINESS_COLUMNS = columnsOf(businessTable)
const COLUMNS = columnsOf(clientTable)

/** The clients as rows with the columns that every table of records has. No view, because views ignore row level security before PostgreSQL 15. */
export const CLIENT_ROWS = `(
  select
    organization_id, id as business_id, ${COLUMNS.map(({ name, field }) => `${name} as ${snakeCase(field)}`).join(', ')},
    changed_xid, updated_at, representation
  from ${TABLE}
  where client_id is not null
)`

const LIST = defineList(TABLE, CLIENT_ROWS)

const RECORD: RecordRows = { rows: CLIENT_ROWS, representation: withUpdatedAt('record.representation') }

type NewClientValues = CreationValues & ColumnValues

const CREATE_PARTS = (reserve: Reserve): WriteParts => ({
  steps: [
    reserve(),
    `client as (${insertInto('businesses', [...BUSINESS_COLUMNS, ...COLUMNS], 'reserved')})`,
    published('client'),
  ],
  answer: {},
})
const CREATE = defineWrite<NewClientValues>(CREATE_PARTS)
const ADMIT_AND_CREATE = defineAdmittedWrite<NewClientValues>(CREATE_PARTS)

const CHANGE = defineChange<{ readonly set: string }>({
  table: TABLE,
  id: 'client_id',
  state: 'client_status',
  after: [`after as (select ${afterChange(COLUMNS)} from before where ${isAllowed('client_status')})`],
  representation: representClient('after', 'before'),
  from: 'before, after',
  set: assign(COLUMNS),
})

/** Clients and their businesses in PostgreSQL. */
export function createClientStore(database: RecordDatabase, admissions: Admissions): ClientStore {
  const create: ClientStore['create'] = (creation) =>
    writeCreation(database, creation, CREATE, newClientValues(creation))

  declareOneStep<Client>(admissions, create, (request, creation) =>
    admissions.admitAndWrite(request, (values, judge) =>
      writeCreation(database, creation, ADMIT_AND_CREATE, Object.assign(newClientValues(creation), values), {
        judge,
      }),
    ),
  )

  return {
    ...readSlice(database, admissions, {
      list: LIST,
      record: RECORD,
      wants: ({ statuses, businessId }) => ({
        states: { column: 'status', values: statuses },
        unique: { column: 'business_id', value: businessId },
      }),
    }),
    create,
    change: (given) =>
      writeChange(database, given, CHANGE, { set: setOf(given.set satisfies ClientChanges) }),
  }
}

function newClientValues(creation: Creation<Client>): NewClientValues {
  const { record } = creation
  // Spreads are slow for so many fields.
  return Object.assign(
    creationValues(creation, record.id),
    valuesOf(BUSINESS_COLUMNS, record.business),
    valuesOf(COLUMNS, record),
  )
}

/** Builds the representation of a client from a row of the client, and one of the business. */
export function representClient(client: string, business: string): string {
  return represent(clientTable, client, { business: represent(businessTable, business) })
}
