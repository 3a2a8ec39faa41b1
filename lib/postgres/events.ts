import type { EventStore } from '../publishing.ts'
import type { RecordDatabase } from './database.ts'

/** Events without a record of this library, in PostgreSQL. */
export function createEventStore(database: RecordDatabase): EventStore {
  return {
    async publish(organizationId, event) {
      const [pending] = await database.row(
        (sql, mark) => sql`
          select
            business_api.record_events(${organizationId}::text, ${JSON.stringify([event])}::text::jsonb)::text, ${mark}`,
      )
      if (pending !== '0') database.due.announce()
    },
  }
}
