import type { Fragment, ISql as Sql } from 'postgres'
import type { Business, BusinessStore } from '../resources/businesses.ts'
import type { RecordDatabase } from './connection/database.ts'
import { begin, outcomeColumns } from './statements/key-reservation.ts'
import { writeCreation } from './statements/write.ts'

/** Creates the slice of businesses without a client, in PostgreSQL. */
export function createBusinessRecordStore(database: RecordDatabase): BusinessStore {
  return {
    create(creation) {
      const { organizationId, record } = creation
      return writeCreation(
        database,
        creation,
        (sql, answerTag) => sql`
          with ${begin(sql, creation, record.id)},
          ${insertBusiness(sql, organizationId, record)}
          select ${outcomeColumns(sql)}, ${answerTag}`,
      )
    },
  }
}

/** Builds the step `business`, which inserts a business. */
export function insertBusiness(sql: Sql, organizationId: string, business: Business): Fragment {
  return sql`
    business as (
      insert into business_api.businesses (organization_id, id, name, category, city, email, phone)
      select
        ${organizationId}::text, ${business.id}::text, ${business.name}::text, ${business.category}::text,
        ${business.city}::text, ${business.email}::text, ${business.phone}::text
      from reserved
      on conflict (organization_id, id) do nothing
    )`
}
