import type { Fragment, ISql as Sql } from 'postgres'
import type { Client, ClientStore } from '../resources/clients.ts'
import { insertBusiness } from './businesses.ts'
import type { RecordDatabase } from './connection/database.ts'
import {
  before,
  changeColumns,
  isAllowed,
  orBefore,
  publishedOf,
  represented,
  reservedFor,
  withThisChange,
  writeChange,
} from './statements/change.ts'
import { begin, outcomeColumns } from './statements/key-reservation.ts'
import { admitToPage, defineList } from './statements/list.ts'
import { writeCreation } from './statements/write.ts'

const LIST = defineList('business_api.clients', withBusiness('record.representation', 'record'))

const COLUMNS = [
  'organization_id',
  'id',
  'business_id',
  'status',
  'total_revenue',
  'monthly_revenue',
  'converted_at',
]

/** Lists the stored columns of a client in the order of {@link newClientRow}. @param of the name of a row, with its dot */
export function clientColumns(sql: Sql, of = ''): Fragment {
  return sql.unsafe(COLUMNS.map((column) => of + column).join(', '))
}

/** Builds the values of a new client, in the order of {@link clientColumns}. */
export function newClientRow(
  sql: Sql,
  client: Omit<Client, 'business'>,
  organizationId: Fragment,
  businessId: Fragment,
): Fragment {
  return sql`
    ${organizationId} as organization_id, ${client.id}::text as id, ${businessId} as business_id,
    ${client.status}::text as status,
    ${String(client.totalRevenue)}::text::numeric(15, 3) as total_revenue,
    ${String(client.monthlyRevenue)}::text::numeric(15, 3) as monthly_revenue,
    ${client.convertedAt}::text::timestamptz as converted_at`
}

/** Creates the slice of clients with their businesses, in PostgreSQL. */
export function createClientStore(database: RecordDatabase): ClientStore {
  return {
    admitAndList: (request, limit) => admitToPage(database, LIST, request, limit),

    create(creation) {
      const { organizationId, record } = creation
      const { business } = record
      return writeCreation(
        database,
        creation,
        (sql, answerTag) => sql`
          with ${begin(sql, creation, record.id)},
          ${insertBusiness(sql, organizationId, business)},
          client as (
            insert into business_api.clients (${clientColumns(sql)})
            select ${newClientRow(sql, record, sql`${organizationId}::text`, sql`${business.id}::text`)}
            from reserved
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, ${answerTag}`,
      )
    },

    change(given) {
      const { set } = given
      return writeChange(
        database,
        given,
        (sql, answerTag) => sql`
          with ${before(sql, given, 'business_api.clients')},
          after as (
            select
              before.organization_id, before.id, before.business_id, before.converted_at,
              ${orBefore(sql, set.status, 'status')},
              ${orBefore(sql, set.totalRevenue, 'total_revenue', 'numeric(15, 3)')},
              ${orBefore(sql, set.monthlyRevenue, 'monthly_revenue', 'numeric(15, 3)')}
            from before
            where ${isAllowed(sql, given, 'status')}
          ),
          ${represented(sql, withBusiness(clientRepresentation('after'), 'after'))},
          ${reservedFor(sql, given)},
          written as (
            update business_api.clients client
               set status = after.status, total_revenue = after.total_revenue,
                   monthly_revenue = after.monthly_revenue, ${withThisChange(sql, given)}
              from before, after, reserved
             where client.organization_id = after.organization_id and client.id = after.id and not before.is_repeat
          ),
          ${publishedOf(sql, given)}
          select ${changeColumns(sql, 'status')}, ${answerTag}`,
      )
    },
  }
}

/** Builds the stored representation of a row of clients: the client without its business. */
export function clientRepresentation(row: string): string {
  return `business_api.client_representation(
    ${row}.id, ${row}.status, ${row}.total_revenue, ${row}.monthly_revenue, ${row}.converted_at
  )`
}

/** Builds the representation of a client: the stored representation, with the business of `row` as the last field. */
export function withBusiness(stored: string, row: string): string {
  // One look-up for each client of a page: a join is planned badly while the tables have no statistics.
  return `pg_catalog.left(${stored}, -1) || ',"business":' || (
    select business.representation from business_api.businesses business
    where business.organization_id = ${row}.organization_id and business.id = ${row}.business_id
  ) || '}'`
}
