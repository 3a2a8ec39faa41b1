import type { OrganizationStore, PartResult } from '../access/organizations.ts'
import type { Database } from './connection/database.ts'

// The work is a function of the schema: see sql/52-organizations.sql.

/** Creates the slice of organizations in PostgreSQL. */
export function createOrganizationStore(database: Database): OrganizationStore {
  return {
    async deletePart({ organizationId, limit, after }) {
      const [answer] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select
            business_api.delete_organization_part(
              ${organizationId}::text, ${limit}::int, ${after}::text::jsonb
            )::text,
            ${answerTag}`,
      )
      return readPart(answer ?? '')
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
      return answer === null || answer === undefined ? null : readPart(answer)
    },
  }
}

function readPart(answer: string): PartResult {
  const { counts, next } = JSON.parse(answer)
  return { counts, next: next && JSON.stringify(next) }
}
