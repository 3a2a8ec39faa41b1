import type { Sql } from 'postgres'

/** Highest event size limit, in bytes. */
export const EVENT_BYTES_MAX: number = 4 * 1024 * 1024
/** Lowest event size limit, in bytes. The API's own events are all smaller. */
export const EVENT_BYTES_MIN: number = 64 * 1024

/**
 * Stores the maximum event size for all processes and for publishers in SQL. Doesn't write if unchanged.
 *
 * @param maxBytes a validated integer
 */
export async function writeEventLimit(sql: Sql, maxBytes: number): Promise<void> {
  await sql.unsafe(`
    do $$ begin
      if not exists (select 1 from business_api.event_limits where max_body_bytes = ${maxBytes}) then
        insert into business_api.event_limits (max_body_bytes) values (${maxBytes})
        on conflict (organization_id) do update set max_body_bytes = excluded.max_body_bytes;
      end if;
    end $$`)
}
