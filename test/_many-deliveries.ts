import type { Sql } from 'postgres'
import { makeDaysSince } from './_days.ts'

// Millions of events with deliveries and attempts, made in the database: for benchmarks, and for tests of statements at that
// size.

/** What to make. */
export interface ManyDeliveries {
  /** Each event has a delivery that arrived at the first attempt. */
  readonly events: number
  /** The age of the oldest event in days; the other events follow evenly, up to now. */
  readonly days: number
  readonly organizations: number
  /** Endpoints of each organization. Default 4. */
  readonly endpoints?: number
}

/** The organization of a number, as {@link makeManyDeliveries} makes them. */
export function organizationOf(number: number): string {
  return `org_${number}`
}

/** The endpoint of a number from 0, of the organization of a number. */
export function endpointOf(organization: number, endpoint: number): string {
  return `we_01JD8Z6M3Q4T5V6W7X${String(organization * 1000 + endpoint).padStart(8, '0')}`
}

/** The record of a number from 0, which has every (events / 4)th event. */
export function subjectOf(record: number): string {
  return `prj_${record.toString(16).toUpperCase().padStart(26, '0')}`
}

const TABLES = ['finished_deliveries', 'delivery_attempts', 'events'] as const

/** Makes deliveries in an empty, migrated database: unlogged, and the indexes after the rows. */
export async function makeManyDeliveries(
  sql: Sql,
  { events, days, organizations, endpoints = 4 }: ManyDeliveries,
): Promise<void> {
  const keys = await sql<{ table: string; name: string; definition: string }[]>`
    select conrelid::regclass::text as table, conname as name, pg_get_constraintdef(oid) as definition
    from pg_constraint where conrelid = any (${TABLES.map((name) => `business_api.${name}`)}::regclass[]) and contype in ('p', 'f')
    order by contype = 'f'`
  const indexes = await sql<{ name: string; definition: string }[]>`
    select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
    from pg_index where indrelid = any (${TABLES.map((name) => `business_api.${name}`)}::regclass[]) and not indisprimary`
  for (const { table, name } of [...keys].reverse()) {
    await sql.unsafe(`alter table ${table} drop constraint ${name}`)
  }
  for (const { name } of indexes) await sql.unsafe(`drop index ${name}`)
  await makeDaysSince(sql, new Date(Date.now() - days * 86_400_000))
  for (const name of TABLES) {
    const leaves = await sql`
      select relid::regclass::text as name from pg_partition_tree(${`business_api.${name}`}::regclass) where isleaf`
    for (const leaf of leaves) await sql.unsafe(`alter table ${leaf.name} set unlogged`)
  }

  await makeEndpoints(sql, organizations, endpoints)
  await makeEvents(sql, events, days, organizations, endpoints)
  await makeActivity(sql)

  for (const { definition } of indexes) await sql.unsafe(definition.replace(' ON ONLY ', ' ON '))
  for (const { table, name, definition } of keys) {
    await sql.unsafe(`alter table ${table} add constraint ${name} ${definition}`)
  }
  for (const name of TABLES) await sql.unsafe(`vacuum analyze business_api.${name}`)
}

async function makeEndpoints(sql: Sql, organizations: number, endpoints: number): Promise<void> {
  const rows = Array.from({ length: organizations * endpoints }, (_, index) => {
    const organization = Math.floor(index / endpoints)
    return {
      organization_id: organizationOf(organization),
      id: endpointOf(organization, index % endpoints),
      url: 'https://hooks.example/',
      state: 'enabled',
      created_at: new Date(),
      sealed_secret: 'plain.whsec_test',
    }
  })
  await sql`insert into business_api.webhook_endpoints ${sql(rows)}`
}

/** Counts the attempts, in four slots of each hour: place 11 is 2xx, 12 delivered, 14 a duration of 8 to 16 ms. */
async function makeActivity(sql: Sql): Promise<void> {
  await sql`
    insert into business_api.endpoint_activity (organization_id, hour, endpoint_id, slot, counts)
    select organization_id, date_trunc('hour', finished_at, 'UTC'), endpoint_id, hashtext(id) & 3,
           array_fill(0, array[10]) || array[count(*), count(*), 0, count(*)]::int[] || array_fill(0, array[10])
    from business_api.finished_deliveries
    group by 1, 2, 3, 4`
  await sql`vacuum analyze business_api.endpoint_activity`
}

/** Rows of a statement. */
const BATCH = 500_000

async function makeEvents(
  sql: Sql,
  events: number,
  days: number,
  organizations: number,
  endpoints: number,
): Promise<void> {
  const digits = Array.from({ length: 10 }, (_, place) => {
    return `substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((ms >> ${45 - 5 * place}) & 31)::int + 1, 1)`
  })
  for (let first = 0; first < events; first += BATCH) {
    const last = Math.min(events, first + BATCH) - 1
    await sql.unsafe(`
      with made as (
        select
          'org_' || number % ${organizations} as organization_id,
          'we_01JD8Z6M3Q4T5V6W7X' || lpad(
            ((number % ${organizations}) * 1000 + number / ${organizations} % ${endpoints})::text, 8, '0'
          ) as endpoint_id,
          ${digits.join(' || ')} || upper(lpad(to_hex(number), 16, '0')) as ulid,
          'prj_' || upper(lpad(to_hex(number % ${Math.ceil(events / 4)}), 26, '0')) as subject_id,
          to_timestamp(ms / 1000.0) as at
        from generate_series(${first}::bigint, ${last}::bigint) as number, lateral (
          select (extract(epoch from now()) * 1000 - ${days * 86_400_000} * (1 - number / ${events}::float8))::bigint as ms
        ) as moment
      ), event as (
        insert into business_api.events (organization_id, id, type, body, delivery_prefix, subject_id)
        select organization_id, 'evt_' || ulid, 'project.completed', repeat('x', 200), 'dlv_' || ulid, subject_id from made
      ), delivery as (
        insert into business_api.finished_deliveries
          (organization_id, id, event_id, type, endpoint_id, state, created_at, attempts, finished_at)
        select organization_id, 'dlv_' || ulid, 'evt_' || ulid, 'project.completed', endpoint_id, 'delivered', at, 1, at from made
      )
      insert into business_api.delivery_attempts
        (organization_id, delivery_id, number, started_at, duration_ms, status, body_excerpt)
      select organization_id, 'dlv_' || ulid, 1, at, 12, 200, 'ok' from made`)
  }
}
