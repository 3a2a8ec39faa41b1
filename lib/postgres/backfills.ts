import type { BackfillType } from '../resources/backfill.ts'
import type { BackfillOutcome, BackfillStore } from '../webhooks/backfill.ts'
import type { Database } from './connection/database.ts'

/** The table of the records with an event of each type. */
const TABLES: Readonly<Record<BackfillType, string>> = {
  'business.created': 'business_api.businesses',
  'client.created': 'business_api.clients',
  'lead.created': 'business_api.leads',
  'proposal.created': 'business_api.proposals',
}

/** Creates the slice of backfills in PostgreSQL: see sql/36-backfills.sql. */
export function createBackfillStore(database: Database): BackfillStore {
  return {
    async backfill({ organizationId, endpointId, type, template, after, limit, entry }) {
      const [outcome] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select
            business_api.backfill_part(
              ${organizationId}::text, ${endpointId}::text, ${type}::text, ${template}::text, ${after ?? ''}::text,
              ${limit}::int, ${JSON.stringify(entry)}::text::jsonb
            ),
            ${answerTag}`,
      )
      const part = JSON.parse(outcome ?? 'null') as BackfillOutcome | null
      if (part?.outcome === 'done' && part.events > 0) database.wakeUp.signal()
      return part
    },

    async count(organizationId, type, max) {
      const [count] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select count(*)::text, ${answerTag} from (
            select 1 from ${sql.unsafe(TABLES[type])} where organization_id = ${organizationId}::text limit ${max}::int
          ) as found`,
      )
      return Number(count)
    },
  }
}
