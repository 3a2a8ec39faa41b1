import type { BackfillType } from '../resources/backfill.ts'
import { businessTable } from '../resources/businesses.ts'
import type { BackfillOutcome, BackfillStore } from '../webhooks/backfill.ts'
import { CLIENT_ROWS } from './clients.ts'
import type { Database } from './connection/database.ts'
import { represent } from './statements/columns.ts'
import { plannedAnew } from './statements/fragments.ts'
import { askJson } from './statements/statement.ts'

interface Source {
  readonly rows: string
  /** Defaults to `record.business_id`. */
  readonly businessId?: string
  readonly representation?: string
}

const SOURCES: Readonly<Record<BackfillType, Source>> = {
  'business.created': {
    rows: 'business_api.businesses',
    businessId: 'record.id',
    representation: represent(businessTable, 'record'),
  },
  'client.created': { rows: CLIENT_ROWS },
  'lead.created': { rows: 'business_api.leads' },
  'proposal.created': { rows: 'business_api.proposals', businessId: 'null' },
}

/** Creates the PostgreSQL store for backfills. See sql/36-backfills.sql. */
export function createBackfillStore(database: Database): BackfillStore {
  return {
    async backfill({ organizationId, endpointId, type, template, after, limit, entry }) {
      const {
        rows,
        businessId = 'record.business_id',
        representation = 'record.representation',
      } = SOURCES[type]
      const part = await askJson<BackfillOutcome | null>(database, organizationId, (sql, answerTag) =>
        plannedAnew(sql`
          select
            business_api.backfill_part(
              ${organizationId}::text, ${endpointId}::text, ${type}::text, ${template}::text, ${limit}::int,
              (
                select pg_catalog.json_agg(part) from (
                  select
                    record.id, ${sql.unsafe(businessId)} as "businessId", ${sql.unsafe(representation)} as representation
                  from ${sql.unsafe(rows)} record
                  where record.organization_id = ${organizationId}::text and record.id > ${after ?? ''}::text
                  order by record.id
                  limit ${limit}::int
                ) as part
              )::jsonb,
              ${JSON.stringify(entry)}::text::jsonb
            ),
            ${answerTag}`),
      )
      if (part?.outcome === 'done' && part.events > 0) database.wakeUp.signal()
      return part
    },

    count: (organizationId, type, max) =>
      askJson(
        database,
        organizationId,
        (sql, answerTag) => sql`
          select count(*)::text, ${answerTag} from (
            select 1 from ${sql.unsafe(SOURCES[type].rows)} record
            where organization_id = ${organizationId}::text
            limit ${max}::int
          ) as found`,
      ),
  }
}
