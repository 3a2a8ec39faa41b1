import type { ClientStore } from '../clients.ts'
import { admitToPage, newest } from './admission.ts'
import { claim, create, outcomeColumns } from './creation.ts'
import type { Database } from './database.ts'
import { isoTimestamp } from './fragments.ts'

/** Clients and their businesses in PostgreSQL. */
export function createClientStore(database: Database): ClientStore {
  return {
    list(request, limit) {
      return admitToPage(
        database,
        request,
        (sql) => sql`
          select
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
            ) as business
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
        (sql, mark) => sql`
          with ${claim(sql, creation, record.id)},
          business as (
            insert into business_api.businesses (organization_id, id, name, category, city, email, phone)
            select
              ${organizationId}::text, ${business.id}::text, ${business.name}::text, ${business.category}::text,
              ${business.city}::text, ${business.email}::text, ${business.phone}::text
            from claim
            on conflict (organization_id, id) do nothing
          ),
          client as (
            insert into business_api.clients
              (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at)
            select
              ${organizationId}::text, ${record.id}::text, ${business.id}::text, ${record.status}::text,
              ${String(record.totalRevenue)}::text::numeric, ${String(record.monthlyRevenue)}::text::numeric,
              ${record.convertedAt}::text::timestamptz
            from claim
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, ${mark}`,
      )
    },
  }
}
