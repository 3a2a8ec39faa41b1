import type { OrganizationStore } from '../access/organizations.ts'
import type { Database } from './connection/database.ts'

// The work is a function of the schema: see sql/0022-organizations.sql.

/** Creates the slice of organizations in PostgreSQL. */
export function createOrganizationStore(database: Database): OrganizationStore {
  return {
    async deletePart(organizationId, limit) {
      const [counts] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select business_api.delete_organization_part(${organizationId}::text, ${limit}::int)::text, ${answerTag}`,
      )
      return JSON.parse(counts ?? '{}')
    },

    async forgetPart({ organizationId, businessId, proposalIds, limit, after }) {
      const [answer] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select
            business_api.forget_business_part(
              ${organizationId}::text, ${businessId}::text, ${JSON.stringify(proposalIds)}::text::jsonb, ${limit}::int,
              ${after}::text::jsonb
            )::text,
            ${answerTag}`,
      )
      const part = JSON.parse(answer ?? 'null')
      return part && { counts: part.counts, next: part.next && JSON.stringify(part.next) }
    },
  }
}
