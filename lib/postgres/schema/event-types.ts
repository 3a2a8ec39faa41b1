import type { Sql } from 'postgres'
import type { EventOwner } from '../../resources/own-events.ts'

/**
 * Registers the event types of a service for publishers in SQL. Types that only another version of the host has stay. Writes nothing if the
 * database has them all, so a user who may only read is enough then.
 *
 * @returns the names that were registered
 */
export async function registerEvents(sql: Sql, service: EventOwner): Promise<string[]> {
  if (service.events.length === 0) return []
  const missing = await sql.unsafe<{ type: string }[]>(`
    select type, subject from (values ${rowsOf(service)}) as given (type, subject)
    except select type, subject from business_api.event_types where organization_id = ''`)
  if (missing.length > 0) await sql.unsafe(writeRegistration(service))
  return missing.map(({ type }) => type)
}

/** Writes the statement that registers the event types of a service; empty without any. */
export function writeRegistration(service: EventOwner): string {
  if (service.events.length === 0) return ''
  return `insert into business_api.event_types (type, subject) values ${rowsOf(service)}
on conflict (organization_id, type) do update set subject = excluded.subject;
`
}

/** Checked names need no quoting. In the statement's text, because a host's type serializers could change a parameter. */
function rowsOf({ events }: EventOwner): string {
  return events.map(({ type, subject }) => `('${type}', ${subject ? `'${subject}'` : 'null'})`).join(', ')
}
