import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import { createPostgresStore, migrate } from '../../../lib/postgres.ts'
import { percentile } from '../../_percentile.ts'
import { addEndpoint, describe, latencies, publish, startDeliverer, startReceiver } from './parts.ts'

// One busy endpoint, while nothing else is sent: it gets as many deliveries as fifty endpoints together, and at a rate that publishers
// and machine can hold nothing queues up. Then 49 endpoints beside 1,000 events to one that never answers. Beside a flood of 50,000:
// fairness.ts.

const EVENTS = Number(process.env.EVENTS ?? 5000)
const PER_SECOND = Number(process.env.PER_SECOND ?? 400)
const ENDPOINTS = 50
const SILENT_EVENTS = 1000

type Published = Awaited<ReturnType<typeof publish>>

const database = await startPostgres()
const receiver = await startReceiver(ENDPOINTS, 1)
try {
  await migrate(database.url)
  const store = createPostgresStore(database.url, { maxConnections: 16 })
  for (const [index, url] of receiver.healthy.entries()) await addEndpoint(store, `org_${index}`, url)
  await addEndpoint(store, 'org_silent', receiver.silent[0] ?? '')
  const deliverer = await startDeliverer(database.url)
  await arrivalsOf(await paced(200, 100, (index) => `org_${index % ENDPOINTS}`))

  const spread = await asFastAsPossible((index) => `org_${index % ENDPOINTS}`)
  const alone = await asFastAsPossible(() => 'org_0')
  report(
    `32 publishers: to ${ENDPOINTS} endpoints ${spread.toFixed(0)} delivered a second, to one ${alone.toFixed(0)}`,
    alone / spread >= 0.95,
    '0.95',
  )

  const busy = await paced(EVENTS, PER_SECOND, () => 'org_0')
  const busyMs = latencies(busy, await arrivalsOf(busy))
  report(`one endpoint at ${PER_SECOND}/s: ${describe(busyMs)}`, percentile(busyMs, 0.5) <= 60, 'p50 60 ms')

  await Promise.all(Array.from({ length: SILENT_EVENTS }, () => publish(store, 'org_silent')))
  const others = await paced(3000, 100, (index) => `org_${1 + (index % (ENDPOINTS - 1))}`)
  const othersMs = latencies(others, await arrivalsOf(others))
  report(
    `49 endpoints beside ${SILENT_EVENTS} events to a silent one: ${describe(othersMs)}`,
    percentile(othersMs, 0.99) <= 20,
    'p99 20 ms',
  )

  const ended = once(deliverer, 'exit')
  deliverer.disconnect()
  await ended
  await store.close()

  /** @returns deliveries per second, from the first publication to the last arrival */
  async function asFastAsPossible(organizationOf: (index: number) => string): Promise<number> {
    const beganAt = process.hrtime.bigint()
    const published: Published[] = []
    let next = 0
    const publishAll = async () => {
      while (next < EVENTS) published.push(await publish(store, organizationOf(next++)))
    }
    await Promise.all(Array.from({ length: 32 }, publishAll))
    const arrived = await arrivalsOf(published)
    const last = [...arrived.values()].reduce((latest, at) => (at > latest ? at : latest))
    return EVENTS / (Number(last - beganAt) / 1e9)
  }

  /** Publishes at a rate, whatever the time that a publication takes. */
  async function paced(
    count: number,
    perSecond: number,
    organizationOf: (index: number) => string,
  ): Promise<Published[]> {
    const startedAt = performance.now()
    const publications: Promise<Published>[] = []
    for (let index = 0; index < count; index++) {
      const waitMs = startedAt + (index * 1000) / perSecond - performance.now()
      if (waitMs > 1) await sleep(waitMs)
      publications.push(publish(store, organizationOf(index)))
    }
    return Promise.all(publications)
  }
} finally {
  receiver.stop()
  await database.stop()
}

/** Waits for the arrivals of events, a minute at most. */
async function arrivalsOf(events: readonly Published[]): Promise<ReadonlyMap<string, bigint>> {
  const arrived = new Map<string, bigint>()
  for (let tries = 0; tries < 240 && events.some(({ id }) => !arrived.has(id)); tries++) {
    await sleep(250)
    for (const [id, at] of await receiver.arrivals()) arrived.set(id, at)
  }
  return arrived
}

function report(what: string, isMet: boolean, goal: string): void {
  console.log(`${what}; goal ${goal} ${isMet ? 'met' : 'MISSED'}`)
}
