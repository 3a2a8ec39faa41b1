import type { Fragment, ISql } from 'postgres'
import { idPrefixAt } from '../lib/base/ids.ts'

// Days of events and deliveries behind the store's back: see sql/34-days.sql.

const DAY_MS = 86_400_000

/** The text with which made-up ids and prefixes of deliveries of today begin. */
export const TODAY: string = idPrefixAt('dlv', Date.now())

/** The name of a table without the day of a partition. */
export function parentOf(table: string): string {
  return table.replace(/_(\d{8}|first)$/, '')
}

/** Makes the days from the day of a moment to today, without the days that exist. */
export async function makeDaysSince(sql: ISql, at: Date): Promise<void> {
  for (let day = startOfDay(at.getTime()); day < Date.now(); day += DAY_MS) await makeDay(sql, new Date(day))
}

/** Makes the day of a moment unless there is one. @returns the day's name */
export async function makeDay(sql: ISql, at: Date): Promise<string> {
  const beginsAt = new Date(startOfDay(at.getTime()))
  const name = beginsAt.toISOString().slice(0, 10).replaceAll('-', '')
  await sql`
    select business_api.make_day(${name}, ${beginsAt.toISOString()}, ${new Date(beginsAt.getTime() + DAY_MS).toISOString()})
    where to_regclass(${`business_api.events_${name}`}) is null`
  return name
}

/**
 * Moves events, with their deliveries and attempts, into days of the past, as if published earlier. The ids of the deliveries change
 * with that.
 *
 * @param which a condition on `event`. Default: all
 */
export async function ageEvents(sql: ISql, ms: number, which: Fragment = sql`true`): Promise<void> {
  const earlier = (at: Fragment) => sql`${at} - ${ms}::float8 * interval '1 millisecond'`
  const days = await sql<{ at: Date }[]>`
    select distinct date_trunc('day', ${earlier(sql`business_api.published_at(delivery_prefix)`)}, 'UTC') as at
    from business_api.events event where ${which}`
  for (const { at } of days) await makeDay(sql, at)
  const moved = (id: Fragment) =>
    sql`business_api.day_bound(${earlier(sql`business_api.published_at(${id})`)}) || substr(${id}, 15)`
  const ofEvent = (id: Fragment) =>
    sql`${id} >= event.delivery_prefix and ${id} < event.delivery_prefix || '~' and ${which}`
  await sql`
    update business_api.delivery_attempts attempt set delivery_id = ${moved(sql`attempt.delivery_id`)}
    from business_api.events event
    where attempt.organization_id = event.organization_id and ${ofEvent(sql`attempt.delivery_id`)}`
  for (const table of ['open_deliveries', 'finished_deliveries']) {
    await sql`
      update ${sql(`business_api.${table}`)} delivery
      set id = ${moved(sql`delivery.id`)}, created_at = ${earlier(sql`delivery.created_at`)}
      from business_api.events event
      where delivery.organization_id = event.organization_id and ${ofEvent(sql`delivery.id`)}`
  }
  await sql`
    update business_api.event_ids known set delivery_prefix = ${moved(sql`known.delivery_prefix`)}
    from business_api.events event
    where known.organization_id = event.organization_id and known.id = event.id and ${which}`
  await sql`update business_api.events event set delivery_prefix = ${moved(sql`event.delivery_prefix`)} where ${which}`
}

function startOfDay(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS
}

/** Turns autovacuum off for tables, and for the partitions of a partitioned table. */
export async function turnOffAutovacuum(sql: ISql, ...tables: readonly string[]): Promise<void> {
  for (const table of tables) {
    const leaves = await sql<{ name: string }[]>`
      select relid::regclass::text as name from pg_partition_tree(${`business_api.${table}`}::regclass) where isleaf
      union
      select oid::regclass::text from pg_class where oid = ${`business_api.${table}`}::regclass and relkind = 'r'`
    for (const { name } of leaves) await sql`alter table ${sql.unsafe(name)} set (autovacuum_enabled = false)`
  }
}
