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
  }
}
