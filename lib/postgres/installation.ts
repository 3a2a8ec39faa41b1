import type { Installation, InstallationStore } from '../webhooks/installation.ts'
import type { Database } from './connection/database.ts'

/** Creates the slice of the installation in PostgreSQL. The work is done by functions of the schema: see sql/46-installation.sql. */
export function createInstallationStore(database: Database): InstallationStore {
  async function check(name: string | null, adopts: 'true' | 'false'): Promise<Installation> {
    const [answer] = await database.row(
      (sql, answerTag) => sql`
        select business_api.check_installation(${name}::text, ${adopts}::text::boolean)::text, ${answerTag}`,
    )
    return JSON.parse(answer ?? 'null') as Installation
  }

  return {
    check: (name) => check(name, 'false'),
    adopt: (name) => check(name, 'true'),
    async cancelPending({ limit, after, entry }) {
      const [answer] = await database.row(
        (sql, answerTag) => sql`
          select
            business_api.cancel_pending_part(
              ${after}::text::jsonb, ${limit}::int, ${JSON.stringify(entry)}::text::jsonb
            )::text,
            ${answerTag}`,
      )
      const { cancelled, sending, next } = JSON.parse(answer ?? 'null')
      return { cancelled, sending, next: next && JSON.stringify(next) }
    },
  }
}
