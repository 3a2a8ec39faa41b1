import type { Sql } from 'postgres'

/** The largest event limit in bytes. */
export const EVENT_BYTES_MAX: number = 4 * 1024 * 1024
/** The smallest event limit in bytes. Every event of the API fits. */
export const EVENT_BYTES_MIN: number = 64 * 1024

/**
 * Stores the greatest size of an event's body, for every process and for publishers in SQL. Writes nothing if the database
 * already has that size.
 *
 * @param maxBytes a checked whole number
 */
export async function writeEventLimit(sql: Sql, maxBytes: number): Promise<void> {
  // Part of the statement's text, because a host's type serializers could change a parameter.
  await sql.unsafe(`
    do $$ begin
      if not exists (select 1 from business_api.event_limits where max_body_bytes = ${maxBytes}) then
        insert into business_api.event_limits (max_body_bytes) values (${maxBytes})
        on conflict (organization_id) do update set max_body_bytes = excluded.max_body_bytes;
      end if;
    end $$`)
}
