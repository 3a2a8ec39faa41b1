import type { Fragment, ISql as Sql } from 'postgres'
import type { ClientStore } from '../resources/clients.ts'
import { insertBusiness } from './businesses.ts'
import type { RecordDatabase } from './connection/database.ts'
import { admitToPage, newest } from './statements/admission.ts'
import {
  before,
  change,
  changeColumns,
  isAllowed,
  orBefore,
  publishedOf,
  reservedFor,
  shown,
  withThisChange,
} from './statements/change.ts'
import { isoTimestamp } from './statements/fragments.ts'
import { begin, outcomeColumns } from './statements/key-reservation.ts'
import { create } from './statements/write.ts'

/** Clients and their businesses in PostgreSQL. */
export function createClientStore(database: RecordDatabase): ClientStore {
  return {
    admitAndList(request, limit) {
      return admitToPage(
        database,
        request,
        (sql) => sql`
          select ${clientColumns(sql)}
          from ${newest(sql, 'business_api.clients')} as client
          order by client.id desc
          limit ${limit}::int`,
      )
    },

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
          ${shown(sql, clientColumns(sql), 'client')},
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

/** A client as the API shows it, of a row named `client`. */
export function clientColumns(sql: Sql): Fragment {
  return sql`
    client.id, client.status,
    trim_scale(client.total_revenue) as "totalRevenue",
    trim_scale(client.monthly_revenue) as "monthlyRevenue",
    ${isoTimestamp(sql, 'client.converted_at')} as "convertedAt",
    (
      -- One look-up for each row that is shown: a join is planned badly while the tables have no statistics.
      select nested from (
        select business.id, business.name, business.category, business.city, business.email, business.phone
        from business_api.businesses business
        where business.organization_id = client.organization_id and business.id = client.business_id
      ) as nested
    ) as business`
}
