import type { EventStore } from '../resources/publishing.ts'
import type { BuildStatement, RecordDatabase } from './connection/database.ts'

/** Creates the PostgreSQL store for the host's own events. */
export function createEventStore(database: RecordDatabase): EventStore {
  return {
    async publish(organizationId, event) {
      const build: BuildStatement = (sql, answerTag) => sql`
        select
          business_api.insert_events(${organizationId}::text, ${JSON.stringify([event])}::text::jsonb)::text as due,
          ${answerTag}`
      const [pending] = await database.rowFor(organizationId, build)
      if (pending !== '0') database.wakeUp.signal()
    },
  }
}
