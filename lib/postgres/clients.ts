import type { ClientStore } from '../resources/clients.ts'
import { insertBusiness } from './businesses.ts'
import type { RecordDatabase } from './connection/database.ts'
import {
  before,
  change,
  changeColumns,
  isAllowed,
  orBefore,
  publishedOf,
  represented,
  reservedFor,
  withThisChange,
} from './statements/change.ts'
import { begin, outcomeColumns } from './statements/key-reservation.ts'
import { admitToPage, defineList } from './statements/list.ts'
import { create } from './statements/write.ts'

const LIST = defineList('business_api.clients', withBusiness('record.representation', 'record'))

/** Clients and their businesses in PostgreSQL. */
export function createClientStore(database: RecordDatabase): ClientStore {
  return {
    admitAndList: (request, limit) => admitToPage(database, LIST, request, limit),

    create(creation) {
      const { organizationId, record } = creation
      const { business } = record
      return create(
        database,
        creation,
        (sql, answerTag) => sql`
          with ${begin(sql, creation, record.id)},
          ${insertBusiness(sql, organizationId, business)},
          client as (
            insert into business_api.clients
              (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at)
            select
              ${organizationId}::text, ${record.id}::text, ${business.id}::text, ${record.status}::text,
              ${String(record.totalRevenue)}::text::numeric, ${String(record.monthlyRevenue)}::text::numeric,
              ${record.convertedAt}::text::timestamptz
            from reserved
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, ${answerTag}`,
      )
    },

    change(given) {
      const { set } = given
      return change(
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

/** The stored representation of a row of clients: that of a client without its business. */
export function clientRepresentation(row: string): string {
  return `business_api.client_representation(
    ${row}.id, ${row}.status, ${row}.total_revenue, ${row}.monthly_revenue, ${row}.converted_at
  )`
}

/** The representation of a client: the stored one with that of the business of `row` as its last field. */
export function withBusiness(stored: string, row: string): string {
  // One look-up for each client of a page: a join is planned badly while the tables have no statistics.
  return `pg_catalog.left(${stored}, -1) || ',"business":' || (
    select business.representation from business_api.businesses business
    where business.organization_id = ${row}.organization_id and business.id = ${row}.business_id
  ) || '}'`
}
