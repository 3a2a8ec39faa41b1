import type { Sql } from 'postgres'
import type { EventOwner } from '../../resources/own-events.ts'

/**
 * Writes the statement that registers the event types of a service for publishers in SQL. Changes nothing if the database has them, so a
 * user who may only read is enough then. Types that only another version of the host has stay.
 *
 * @param events with checked names, which need no quoting
 * @returns null without own event types
 */
export function registrationOf({ events }: EventOwner): string | null {
  if (events.length === 0) return null
  const rows = events.map(
    ({ type, subject }) => `('${type}', ${subject === undefined ? 'null' : `'${subject}'`})`,
  )
  // In the statement's text, because a host's type serializers could change a parameter.
  return `do $$ begin
  if exists (
    select type, subject from (values ${rows.join(', ')}) as given (type, subject)
    except select type, subject from business_api.event_types where organization_id = ''
  ) then
    insert into business_api.event_types (type, subject) values ${rows.join(', ')}
    on conflict (organization_id, type) do update set subject = excluded.subject;
  end if;
end $$;
`
}

/** Registers the event types of a service: see {@link registrationOf}. */
export async function registerEvents(sql: Sql, service: EventOwner): Promise<void> {
  const statement = registrationOf(service)
  if (statement !== null) await sql.unsafe(statement)
}
