import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import { createPostgresStore, migrate } from '../../../lib/postgres.ts'
import type { EventRecord } from '../../../lib/writes/event-envelope.ts'
import { percentile } from '../../_percentile.ts'
import {
  addEndpoint,
  describe,
  latencies,
  newEvent,
  publish,
  startDeliverer,
  startReceiver,
} from './parts.ts'

// The latency of nineteen healthy endpoints of nineteen organizations with an event a second each: on an idle system, beside an
// endpoint that never answers with 10,000 due deliveries, and beside an organization that floods a healthy endpoint with 50,000.
// The goal: p99 at most twice that of the idle system.

const HEALTHY = 19
const SECONDS = Number(process.env.SECONDS ?? 30)
const DEAD_DUE = Number(process.env.DEAD_DUE ?? 10_000)
const FLOOD = Number(process.env.FLOOD ?? 50_000)

const database = await startPostgres()
const sql = postgres(database.url, { max: 1 })
const receiver = await startReceiver(HEALTHY + 1, 1)
try {
  await migrate(database.url)
  const store = createPostgresStore(database.url)
  const organizations = Array.from({ length: HEALTHY }, (_, index) => `org_${index}`)
  for (const [index, id] of organizations.entries())
    await addEndpoint(store, id, receiver.healthy[index] ?? '')
  await addEndpoint(store, 'org_dead', receiver.silent[0] ?? '')
  await addEndpoint(store, 'org_flood', receiver.healthy[HEALTHY] ?? '')

  const deliverer = await startDeliverer(database.url)
  await measure(organizations, 5)
  const idle = await measure(organizations, SECONDS)
  console.log(`idle: ${describe(idle)}`)

  await fill('org_dead', DEAD_DUE)
  const besideDead = await measure(organizations, SECONDS)
  report(`beside a dead endpoint with ${DEAD_DUE} due`, besideDead, idle)

  const flooding = fill('org_flood', FLOOD)
  const besideFlood = await measure(organizations, SECONDS)
  await flooding
  const { due } = await store.deliveries.countQueue(null)
  report(
    `beside a flood of ${FLOOD} (${due > 10_000 ? 'more than 10,000' : due} due at the end)`,
    besideFlood,
    idle,
  )
  const ended = once(deliverer, 'exit')
  deliverer.disconnect()
  await ended
  await store.close()
} finally {
  receiver.stop()
  await sql.end()
  await database.stop()
}

/** An event a second for each organization, spread over the second. */
async function measure(organizations: readonly string[], seconds: number): Promise<number[]> {
  await receiver.arrivals()
  const store = createPostgresStore(database.url)
  const published: Promise<{ id: string; at: bigint }>[] = []
  const beganAt = performance.now()
  for (let index = 0; index < seconds * organizations.length; index++) {
    const dueAt = beganAt + (index * 1000) / organizations.length
    await sleep(Math.max(0, dueAt - performance.now()))
    published.push(publish(store, organizations[index % organizations.length] ?? ''))
  }
  const commits = await Promise.all(published)
  await sleep(2000)
  await store.close()
  return latencies(commits, await receiver.arrivals())
}

/** Publishes many events at once, as a busy organization does: 500 to a transaction. */
async function fill(organizationId: string, count: number): Promise<void> {
  for (let done = 0; done < count; done += 500) {
    const events = Array.from({ length: Math.min(500, count - done) }, newEvent)
    await publishAll(organizationId, events)
  }
}

async function publishAll(organizationId: string, events: readonly EventRecord[]): Promise<void> {
  await sql`select business_api.insert_events(${organizationId}, ${JSON.stringify(events)}::text::jsonb)`
}

function report(what: string, values: readonly number[], idle: readonly number[]): void {
  const ratio = percentile(values, 0.99) / percentile(idle, 0.99)
  console.log(
    `${what}: ${describe(values)}; p99 ${ratio.toFixed(2)} times idle, goal 2 ${ratio <= 2 ? 'met' : 'MISSED'}`,
  )
}
