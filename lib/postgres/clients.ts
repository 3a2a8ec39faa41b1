import type { Client, ClientChanges, ClientStore } from '../resources/clients.ts'
import type { Creation } from '../writes/creation.ts'
import { declareOneStep } from '../writes/one-step.ts'
import type { Admissions } from './admission.ts'
import { type BusinessValues, businessValues, insertBusiness } from './businesses.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineAdmittedWrite } from './statements/admitted-write.ts'
import { defineChange, isAllowed, orBefore, setOf, writeChange } from './statements/change.ts'
import {
  type CreationValues,
  creationValues,
  defineWrite,
  published,
  type Reserve,
  type WriteParts,
} from './statements/key-reservation.ts'
import { defineList } from './statements/list.ts'
import { getRecord, isOneOf, listRecords, type RecordTable, withUpdatedAt } from './statements/read.ts'
import { writeCreation } from './statements/write.ts'

const COLUMNS = [
  'organization_id',
  'id',
  'business_id',
  'status',
  'total_revenue',
  'monthly_revenue',
  'converted_at',
]

const TABLE = 'business_api.clients'

// A list shows the copies of businesses: see "Copies of businesses" in sql/11-clients.sql. The index of outdated businesses is queried
// once for a list, by a subquery that depends on no record. Without a good copy the business is looked up by the key: a subquery,
// because PostgreSQL runs only the branch of `case` that is needed, and a join has a step for each record.
const LIST = defineList(TABLE, {
  columns: ['business_id', 'representation', 'business_copy', 'has_copy'],
  // The stored text of a client ends where the business belongs. The last brace is removed from the whole page and not from each
  // client, because PostgreSQL counts all characters of a text twice to cut the last off. The spliced text is in no other place: in a
  // JSON string a backslash comes before every quote.
  representation: `record.representation || ',"business":' || case
    when record.has_copy and not exists (
      select 1 from business_api.businesses outdated
      where outdated.organization_id = @organizationId::text
        and business_api.is_outdated(outdated.representation, outdated.copied)
    ) then record.business_copy
    else (
      select business.representation from business_api.businesses business
      where business.organization_id = @organizationId::text and business.id = record.business_id
    )
  end || '}'`,
  splice: { text: '},"business":', replacement: ',"business":' },
})

const RECORD: RecordTable = {
  table: TABLE,
  representation: withUpdatedAt(withBusiness('record.representation', 'record')),
}

type NewClientValues = CreationValues & ClientValues & BusinessValues

const CREATE_PARTS = (reserve: Reserve): WriteParts => ({
  steps: [
    reserve(),
    insertBusiness(),
    `client as (
      insert into business_api.clients (${clientColumns()}, business_copy, copy_of)
      select
        ${newClientRow('@organizationId::text', '@businessId::text')},
        business.copied, business_api.copy_key(@organizationId::text, @businessId::text)
      from business
      on conflict (organization_id, id) do nothing
      returning 1 as one
    )`,
    published('client'),
  ],
  answer: {},
})
const CREATE = defineWrite<NewClientValues>(CREATE_PARTS)
const ADMIT_AND_CREATE = defineAdmittedWrite<NewClientValues>(CREATE_PARTS)

const CHANGE = defineChange<{ readonly set: string }>({
  table: TABLE,
  state: 'status',
  after: [
    `after as (
      select
        before.organization_id, before.id, before.business_id, before.converted_at,
        ${orBefore('status')},
        ${orBefore('total_revenue', 'totalRevenue', 'numeric(15, 3)')},
        ${orBefore('monthly_revenue', 'monthlyRevenue', 'numeric(15, 3)')}
      from before
      where ${isAllowed('status')}
    )`,
  ],
  representation: withBusiness(clientRepresentation('after'), 'after'),
  set: 'status = after.status, total_revenue = after.total_revenue, monthly_revenue = after.monthly_revenue',
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
    admitAndList: (request, asked) => admissions.admitToPage(request, LIST, asked),
    create,
    change: (given) =>
      writeChange(database, given, CHANGE, { set: setOf(given.set satisfies ClientChanges) }),

    list: (organizationId, { statuses, businessId }, limit, before) =>
      listRecords(database, RECORD, organizationId, (sql) => ({
        limit,
        before,
        ...(businessId === undefined
          ? { ranges: statuses && { column: 'status', values: statuses } }
          : {
              unique: { column: 'business_id', value: businessId },
              conditions: isOneOf(sql, 'status', statuses),
            }),
      })),

    get: (organizationId, id) => getRecord(database, RECORD, organizationId, id),
  }
}

function newClientValues(creation: Creation<Client>): NewClientValues {
  const { record } = creation
  // Spreads are slow for so many fields.
  return Object.assign(
    creationValues(creation, record.id),
    clientValues(record),
    businessValues(record.business),
  )
}

/** The stored columns of a client in the order of {@link newClientRow}. @param of the name of a row, with a dot */
export function clientColumns(of = ''): string {
  return COLUMNS.map((column) => of + column).join(', ')
}

/** The values of a new client. */
export interface ClientValues {
  readonly clientId: string
  readonly clientStatus: string
  readonly totalRevenue: string
  readonly monthlyRevenue: string
  readonly convertedAt: string
}

/** Gives the values of a new client. */
export function clientValues(client: Omit<Client, 'business'>): ClientValues {
  return {
    clientId: client.id,
    clientStatus: client.status,
    totalRevenue: String(client.totalRevenue),
    monthlyRevenue: String(client.monthlyRevenue),
    convertedAt: client.convertedAt,
  }
}

/** The columns of a new client. */
export function newClientRow(organizationId: string, businessId: string): string {
  return `
    ${organizationId} as organization_id, @clientId::text as id, ${businessId} as business_id,
    @clientStatus::text as status, @totalRevenue::text::numeric(15, 3) as total_revenue,
    @monthlyRevenue::text::numeric(15, 3) as monthly_revenue, @convertedAt::text::timestamptz as converted_at`
}

/** The stored representation of a row of clients, without the business. */
export function clientRepresentation(row: string): string {
  return `business_api.client_representation(
    ${row}.id, ${row}.status, ${row}.total_revenue, ${row}.monthly_revenue, ${row}.converted_at
  )`
}

/** The representation of a client: the stored text, with the business of `row` as the last field. */
export function withBusiness(stored: string, row: string): string {
  return `pg_catalog.left(${stored}, -1) || ',"business":' || (
    select business.representation from business_api.businesses business
    where business.organization_id = @organizationId::text and business.id = ${row}.business_id
  ) || '}'`
}
