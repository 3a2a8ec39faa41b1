import type { Sql } from 'postgres'
import type { EventOwner } from '../../resources/own-events.ts'

/**
 * Registers a service's event types for publishers in SQL. Types that only other versions of the host have are kept. If
 * nothing is missing, nothing is written, so a read-only user is enough.
 *
 * @returns the newly registered names
 */
export async function registerEvents(sql: Sql, service: EventOwner): Promise<string[]> {
  if (service.events.length === 0) return []
  const missing = await sql.unsafe<{ type: string }[]>(`
    select type, subject from (values ${rowsOf(service)}) as given (type, subject)
    except select type, subject from business_api.event_types where organization_id = ''`)
  if (missing.length > 0) await sql.unsafe(writeRegistration(service))
  return missing.map(({ type }) => type)
}

/** Returns the statement that registers a service's event types, or an empty string if there are none. */
export function writeRegistration(service: EventOwner): string {
  if (service.events.length === 0) return ''
  return `insert into business_api.event_types (type, subject) values ${rowsOf(service)}
on conflict (organization_id, type) do update set subject = excluded.subject;
`
}

/** The names are validated, so they can't contain quotes. */
function rowsOf({ events }: EventOwner): string {
  return events.map(({ type, subject }) => `('${type}', ${subject ? `'${subject}'` : 'null'})`).join(', ')
}
