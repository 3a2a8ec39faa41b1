import assert from 'node:assert/strict'
import type { Sql } from 'postgres'
import { everyDelivery } from '../_deliveries.ts'
import type { Scene } from './_deliveries.ts'
import { until } from './_fixture.ts'
import { countOf, type Published } from './_publishers.ts'

/** Everything that was delivered, in numbers. */
export interface Tally {
  readonly events: number
  readonly deliveries: number
  readonly arrivals: number
  /** Repeated arrivals that no failure answered by the subscriber explains. */
  readonly repeats: number
  /** Attempts that are logged as `interrupted`. */
  readonly interrupted: number
}

/** Waits until nothing is left to deliver; gives how many milliseconds that took. */
export function untilDelivered({ sql }: Scene, timeoutMs: number): Promise<number> {
  const isIdle = async (): Promise<boolean> => {
    const [row] = await sql`
      select not exists (select from business_api.open_deliveries) as is_idle`
    return row?.is_idle === true
  }
  return until('everything is delivered', isIdle, timeoutMs)
}

interface DeliveryRow {
  readonly event_id: string
  readonly digest: string
  readonly path: string
  /** Null where there is no delivery. */
  readonly state: string | null
  readonly attempts: number | null
  readonly logged: number
  readonly failed: number
  readonly interrupted: number
}

/**
 * Asserts a complete delivery: each committed event has arrived at every endpoint, signed and unchanged, and no other event has
 * arrived; every delivery is `delivered`, and the log has at least as many attempts as arrivals.
 *
 * @param options.hasCrashed true after a crash of the server, because the crash may have undone the claim of a sent request
 */
export async function assertDelivered(
  { sql, receiver }: Scene,
  published: Published,
  { hasCrashed = false }: { hasCrashed?: boolean } = {},
): Promise<Tally> {
  const events = await sql<{ id: string }[]>`select id from business_api.events`
  assertEvents(new Set(events.map(({ id }) => id)), published)

  const deliveries = await readDeliveries(sql)
  const arrivals = new Map((await receiver.ledger()).map((one) => [`${one.path} ${one.eventId}`, one]))
  const wrong = deliveries.filter(({ path, event_id, digest, state, attempts, logged }) => {
    const { count = 0, bodies = [] } = arrivals.get(`${path} ${event_id}`) ?? {}
    const isWhole = bodies.length === 1 && bodies[0] === digest
    const isCounted = logged === attempts && (count <= (attempts ?? 0) || hasCrashed)
    return state !== 'delivered' || !isWhole || !isCounted
  })
  assert.deepEqual(wrong.slice(0, 5), [], `${wrong.length} deliveries are not as they must be`)
  assert.equal(arrivals.size, deliveries.length, 'nothing has arrived but what was published')
  assert.equal((await receiver.counts()).forged, 0, 'every request was signed')

  const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0)
  const arrived = sumOf([...arrivals.values()].map(({ count }) => count))
  return {
    events: events.length,
    deliveries: deliveries.length,
    arrivals: arrived,
    repeats: arrived - arrivals.size - sumOf(deliveries.map(({ failed }) => failed)),
    interrupted: sumOf(deliveries.map(({ interrupted }) => interrupted)),
  }
}

function assertEvents(found: ReadonlySet<string>, published: Published): void {
  const lost = [...published.committed].filter((id) => !found.has(id))
  assert.deepEqual(lost, [], 'every event that was committed is recorded')
  const risen = [...published.rolledBack].filter((id) => found.has(id))
  assert.deepEqual(risen, [], 'no event that was rolled back is recorded')
  assert.equal(found.size, countOf(published), 'no other event is recorded')
}

/** A row for each endpoint of each event, and for each delivery. */
function readDeliveries(sql: Sql): Promise<readonly DeliveryRow[]> {
  return sql<DeliveryRow[]>`
    select
      e.id as event_id, encode(sha256(convert_to(e.body, 'UTF8')), 'hex') as digest,
      regexp_replace(w.url, '^http://[^/]+', '') as path, d.state, d.attempts,
      count(a.number)::int as logged, (count(*) filter (where a.status >= 300))::int as failed,
      (count(*) filter (where a.error = 'interrupted'))::int as interrupted
    from business_api.events e
    join business_api.webhook_endpoints w on w.organization_id = e.organization_id
    left join ${everyDelivery(sql)} d
      on d.organization_id = e.organization_id and d.event_id = e.id and d.endpoint_id = w.id
    left join business_api.delivery_attempts a on a.organization_id = d.organization_id and a.delivery_id = d.id
    group by e.organization_id, e.id, e.delivery_prefix, w.organization_id, w.id, d.organization_id, d.id, d.state, d.attempts`
}

export function describeTally({ events, deliveries, arrivals, repeats, interrupted }: Tally): string {
  return (
    `${events} events, ${deliveries} deliveries, ${arrivals} arrivals, ${repeats} repeats, ` +
    `${interrupted} attempts interrupted`
  )
}
