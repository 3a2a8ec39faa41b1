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
    const open = await sql`select 1 from business_api.open_deliveries limit 1`
    return open.length === 0
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
async function readDeliveries(sql: Sql): Promise<readonly DeliveryRow[]> {
  const events = await sql<{ organization_id: string; id: string; digest: string }[]>`
    select organization_id, id, encode(sha256(convert_to(body, 'UTF8')), 'hex') as digest from business_api.events`
  const endpoints = await sql<{ organization_id: string; id: string; path: string }[]>`
    select organization_id, id, regexp_replace(url, '^http://[^/]+', '') as path from business_api.webhook_endpoints`
  const deliveries = await sql<
    {
      organization_id: string
      id: string
      event_id: string
      endpoint_id: string
      state: string
      attempts: number
    }[]
  >`select organization_id, id, event_id, endpoint_id, state, attempts from ${everyDelivery(sql)} d`
  const attempts = await sql<
    { organization_id: string; delivery_id: string; status: number | null; error: string | null }[]
  >`
    select organization_id, delivery_id, status, error from business_api.delivery_attempts`
  const logs = groupBy(attempts, (one) => `${one.organization_id} ${one.delivery_id}`)
  const known = groupBy(deliveries, (one) => `${one.organization_id} ${one.event_id} ${one.endpoint_id}`)
  return events.flatMap((event) =>
    endpoints
      .filter((endpoint) => endpoint.organization_id === event.organization_id)
      .flatMap((endpoint) => {
        const own = known.get(`${event.organization_id} ${event.id} ${endpoint.id}`) ?? [undefined]
        return own.map((delivery) => {
          const log = logs.get(`${event.organization_id} ${delivery?.id}`) ?? []
          return {
            event_id: event.id,
            digest: event.digest,
            path: endpoint.path,
            state: delivery?.state ?? null,
            attempts: delivery?.attempts ?? null,
            logged: log.length,
            failed: log.filter(({ status }) => (status ?? 0) >= 300).length,
            interrupted: log.filter(({ error }) => error === 'interrupted').length,
          }
        })
      }),
  )
}

export function describeTally({ events, deliveries, arrivals, repeats, interrupted }: Tally): string {
  return (
    `${events} events, ${deliveries} deliveries, ${arrivals} arrivals, ${repeats} repeats, ` +
    `${interrupted} attempts interrupted`
  )
}

function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): ReadonlyMap<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const group = groups.get(keyOf(item))
    if (group) group.push(item)
    else groups.set(keyOf(item), [item])
  }
  return groups
}
