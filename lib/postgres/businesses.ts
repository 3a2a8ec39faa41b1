import type { Fragment, ISql as Sql } from 'postgres'
import type { Business, BusinessRecordStore } from '../businesses.ts'
import { begin, outcomeColumns } from './claim.ts'
import type { RecordDatabase } from './database.ts'
import { create } from './write.ts'

/** Businesses without a client in PostgreSQL. */
export function createBusinessRecordStore(database: RecordDatabase): BusinessRecordStore {
  return {
    create(creation) {
      const { organizationId, record } = creation
      return create(
        database,
        creation,
        (sql, mark) => sql`
          with ${begin(sql, creation, record.id)},
          ${insertBusiness(sql, organizationId, record)}
          select ${outcomeColumns(sql)}, ${mark}`,
      )
    },
  }
}

/** The step `business`, which writes one. */
export function insertBusiness(sql: Sql, organizationId: string, business: Business): Fragment {
  return sql`
    business as (
      insert into business_api.businesses (organization_id, id, name, category, city, email, phone)
      select
        ${organizationId}::text, ${business.id}::text, ${business.name}::text, ${business.category}::text,
        ${business.city}::text, ${business.email}::text, ${business.phone}::text
      from claim
      on conflict (organization_id, id) do nothing
    )`
}
