import { randomUUID } from 'node:crypto'
import { type BusinessApiStore, createIds } from 'business-api-kit'
import { createPlatform } from 'business-api-kit/platform'
import postgres, { type Sql } from 'postgres'
import { play } from './present.ts'
import { createRandom } from './random.ts'
import type { Work } from './year.ts'

const HOUR_MS = 3_600_000
/** How often something happens in the past day. */
const PART_MS = HOUR_MS / 2
/** Maximum number of deliveries recorded for each part. */
const PART_MAX = 250

/**
 * Moves the year's events to the times in their ids, as if they had been published then, and fills the last 24 hours
 * with deliveries, like a delivery loop would have done. One of the endpoints was down for four hours.
 *
 * @param urls the shards' databases. Only the demo changes published events
 * @param loopStores the stores of the shards, one of which has the organization
 * @param works the year of each organization. The deliveries are those of the first
 */
export async function deliverPastDay(
  store: BusinessApiStore,
  loopStores: readonly BusinessApiStore[],
  urls: readonly string[],
  works: readonly [Work, ...Work[]],
): Promise<void> {
  const [past] = works
  const organizations = works.map(({ organizationId }) => organizationId)
  const databases = urls.map((url) => postgres(url, { max: 1, onnotice: () => {} }))
  try {
    for (const sql of databases)
      await sql`select business_api.make_days_between(now() - interval '29 days', now())`
    for (const sql of databases) await moveSettings(sql, organizations)
    for (let agoMs = 24 * HOUR_MS - PART_MS; agoMs > 0; agoMs -= PART_MS) {
      const clock = (): number => Date.now() - agoMs
      const work = { ...past, platform: createPlatform(store, { clock, ids: createIds(clock) }), time: clock }
      const turn = Math.floor(agoMs / PART_MS) * 7
      const acts = 6 + Math.round(3 * Math.sin((24 * HOUR_MS - agoMs) / (4 * HOUR_MS)))
      await Promise.all(
        Array.from({ length: acts }, (_, act) =>
          play({ ...work, random: createRandom(turn + act) }, turn + act),
        ),
      )
      for (const sql of databases) await moveEvents(sql, organizations, agoMs)
      for (const shard of loopStores) await recordPart(shard, work, agoMs)
    }
  } finally {
    await Promise.all(databases.map((sql) => sql.end()))
  }
}

/** Moves the changes of the settings to the time in the audit entry's id, which is the time of the demo's calendar. */
async function moveSettings(sql: Sql, organizations: readonly string[]): Promise<void> {
  await sql`
    update business_api.audit_entries set changed_at = business_api.id_time(id)
    where organization_id = any (${organizations})`
  await sql`
    update business_api.api_keys k set revoked_at = a.changed_at
    from business_api.audit_entries a
    where a.organization_id = any (${organizations}) and a.organization_id = k.organization_id
      and a.subject_id = k.id and a.action = 'api_key.revoked'`
}

/**
 * Moves events and open deliveries to the time in the event's id, which is the time of the demo's calendar. Deletes
 * events that are too old to be kept. The database creates the ids of overdue events, so they first get a time on the
 * day after the due date.
 */
async function moveEvents(sql: Sql, organizations: readonly string[], agoMs: number): Promise<void> {
  await sql.begin(async (tx) => {
    const overdue = await tx<{ organization: string; id: string; moved: string }[]>`
      select e.organization_id as organization, e.id,
        'evt_' || substr(business_api.day_bound(
          least(i.due_date + interval '1 day', now() - ${agoMs} * interval '1 millisecond')
        ), 5) || substr(e.id, 15) as moved
      from business_api.events e
      join business_api.invoices i on i.organization_id = e.organization_id and i.id = e.subject_id
      where e.organization_id = any (${organizations}) and e.type = 'invoice.overdue'
        and business_api.id_time(e.id) > now() - ${PART_MS / 2} * interval '1 millisecond'`
    for (const { organization, id, moved } of overdue) {
      await tx`
        update business_api.events set id = ${moved}, body = replace(body, ${id}, ${moved})
        where organization_id = ${organization} and id = ${id}`
      await tx`
        update business_api.open_deliveries set event_id = ${moved}
        where organization_id = ${organization} and event_id = ${id}`
    }
    await tx`
      update business_api.open_deliveries
      set id = business_api.day_bound(business_api.id_time(event_id)) || substr(id, 15),
        created_at = business_api.id_time(event_id)
      where organization_id = any (${organizations}) and business_api.id_time(event_id) < created_at - interval '1 minute'`
    await tx`
      delete from business_api.events
      where organization_id = any (${organizations}) and business_api.id_time(id) < now() - interval '29 days'`
    await tx`
      update business_api.events
      set delivery_prefix = business_api.day_bound(business_api.id_time(id)) || substr(delivery_prefix, 15),
        body = regexp_replace(
          body, '"createdAt":"[^"]+"',
          '"createdAt":"' || to_char(business_api.id_time(id) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"'
        )
      where organization_id = any (${organizations})
        and business_api.id_time(id) < business_api.published_at(delivery_prefix) - interval '1 minute'`
  })
}

async function recordPart(
  { deliveries }: BusinessApiStore,
  { organizationId, random }: Work,
  agoMs: number,
): Promise<void> {
  const token = randomUUID()
  const claimed = await deliveries.claim({
    token,
    isRepeat: false,
    limit: PART_MAX,
    maxBytes: 4 * 1024 * 1024,
    capacity: {
      endpoint: PART_MAX,
      organization: 0,
      endpoints: {},
      organizations: { [organizationId]: PART_MAX },
    },
    scanLimit: PART_MAX,
    cursor: null,
    leaseMs: 60_000,
    maxAttempts: 5,
  })
  const results = claimed.deliveries.map(({ id, url }) => {
    const isDown =
      url.endsWith('/crm') && agoMs >= 9 * HOUR_MS && agoMs < 13 * HOUR_MS && random.between(1, 4) > 1
    const durationMs = random.between(40, 220)
    return {
      organizationId,
      deliveryId: id,
      token,
      outcome: isDown ? ('failed' as const) : ('delivered' as const),
      reason: isDown ? 'http_503' : null,
      isGone: false,
      delayMs: 0,
      backOffMs: null,
      startedAgoMs: agoMs - 1000,
      endedAgoMs: agoMs - 1000 - durationMs,
      durationMs,
      dnsMs: 1,
      connectMs: 1,
      tlsMs: null,
      firstByteMs: durationMs - 5,
      status: isDown ? 503 : 204,
      error: null,
      bodyExcerpt: '',
    }
  })
  // Failures never disable the endpoint.
  await deliveries.writeResults(results, { failures: 1_000_000, failingMs: 24 * HOUR_MS })
}
