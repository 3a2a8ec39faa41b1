import type { LeadStore } from '../leads.ts'
import { admitToPage, newest } from './admission.ts'
import { claim, create, outcomeColumns } from './creation.ts'
import type { Database } from './database.ts'
import { isoTimestamp } from './fragments.ts'

/** Leads in PostgreSQL. */
export function createLeadStore(database: Database): LeadStore {
  return {
    list(request, limit) {
      return admitToPage(
        database,
        request,
        (sql) => sql`
          select
            lead.id, lead.stage,
            trim_scale(lead.lead_score) as "leadScore",
            lead.score_band as "scoreBand",
            trim_scale(lead.expected_value) as "expectedValue",
            ${isoTimestamp(sql, 'lead.created_at')} as "createdAt"
          from ${newest(sql, 'business_api.leads')} as lead
          order by lead.id desc
          limit ${limit}::int`,
      )
    },

    create(creation) {
      const { organizationId, record } = creation
      const { lead, businessId } = record
      return create(
        database,
        creation,
        (sql, mark) => sql`
          with business as (
            select id from business_api.businesses
            where organization_id = ${organizationId}::text and id = ${businessId}::text
          ),
          ${claim(sql, creation, lead.id, sql`exists (select from business)`)},
          lead as (
            insert into business_api.leads
              (organization_id, id, business_id, stage, lead_score, score_band, expected_value, created_at)
            select
              ${organizationId}::text, ${lead.id}::text, ${businessId}::text, ${lead.stage}::text,
              ${nullableNumber(lead.leadScore)}::text::numeric, ${lead.scoreBand}::text,
              ${nullableNumber(lead.expectedValue)}::text::numeric, ${lead.createdAt}::text::timestamptz
            from claim
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, (select count(*) from business)::text, ${mark}`,
        ([, , businesses]) => (businesses === '0' ? { outcome: 'no_business' as const } : undefined),
      )
    },
  }
}

function nullableNumber(value: number | null): string | null {
  return value === null ? null : String(value)
}
