import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { createPostgresStore } from '../../../lib/postgres.ts'
import { percentile } from '../../_percentile.ts'
import { startChild } from '../children.ts'
import { addEndpoint, newEvent, type Receiver, startReceiver } from '../deliveries/parts.ts'
import type { Sample } from '../figures.ts'
import { type LoadKind, measure, type Server, startLoad, startServers } from '../loading.ts'
import { coresSince, readCpu } from '../machine.ts'
import type { Part } from './part.ts'

const ENDPOINTS = 10
const LISTS_PER_SECOND = 500
const CREATES_PER_SECOND = 50
const EVENTS_PER_SECOND = 200
/** How long the last events may take to arrive, in ms. */
const GRACE_MS = 5000

/** A server with a deliverer beside it. */
interface Subject {
  readonly name: string
  readonly server: Server
  readonly deliverer: string
  publish(endpoint: number, event: ReturnType<typeof newEvent>): Promise<unknown>
}

/** Lists, creates and deliveries at a rate that hosts have, about a third of the machine, beside Fastify with graphile-worker. */
export const together: Part = async ({ options, database, keys, collector, say }) => {
  const receiver = await startReceiver(ENDPOINTS, 0)
  const sql = postgres(database.url, { max: 10, onnotice: () => {} })
  const store = createPostgresStore(database.url)
  try {
    for (const [index, url] of receiver.healthy.entries()) await addEndpoint(store, `org_${index}`, url)
    await sql`
      create table peer.attempts (id bigserial primary key, event_id text, at timestamptz default now(), ms real, status int)`
    const [ours, fastify] = await startServers(database.url, ['ours', 'Fastify'])
    if (!ours || !fastify) throw new Error('Cannot measure: a server has not started')
    const subjects: readonly Subject[] = [
      {
        name: 'ours',
        server: ours,
        deliverer: 'our-deliverer',
        publish: (endpoint, event) => store.events.publish(`org_${endpoint}`, event),
      },
      {
        name: 'Fastify, graphile-worker',
        server: fastify,
        deliverer: 'graphile-worker',
        publish: async (endpoint, event) =>
          sql`select graphile_worker.add_job(
            'deliver', ${JSON.stringify({ ...event, url: receiver.healthy[endpoint] })}::text::json)`,
      },
    ]
    const loads = [await startLoad(), await startLoad()] as const
    // Keys of organizations without an endpoint, so that the same number of events is delivered on both sides.
    const common = {
      connections: options.connections,
      path: '/api/v1/clients',
      keys: keys.many.slice(ENDPOINTS),
    }
    const list: LoadKind = { ...common, method: 'GET', perSecond: LISTS_PER_SECOND }
    const body = '{"name":"Atlas Ceramics","city":"Tunis"}'
    const create: LoadKind = { ...common, method: 'POST', body, perSecond: CREATES_PER_SECOND }

    const turn = async ({ server, deliverer, publish }: Subject, seconds: number) => {
      const child = await startChild(deliverer, [database.url])
      await child.ask({ deliver: true }, GRACE_MS)
      await sleep(500)
      await receiver.arrivals()
      const before = readCpu([server.pid, child.pid])
      const [lists, creates, publishedAt] = await Promise.all([
        measure(loads[0], server, { ...list, seconds }),
        measure(loads[1], server, { ...create, seconds }),
        publishSteadily((endpoint) => {
          const event = newEvent()
          return [event.id, publish(endpoint, event)]
        }, seconds),
      ])
      const cores = coresSince(before, readCpu([server.pid, child.pid]))
      const deliveries = await waitForArrivals(receiver, publishedAt)
      await child.stop()
      return { lists, creates, deliveries: { ...deliveries, ...cores } }
    }

    for (const subject of subjects) await turn(subject, 2)
    for (let round = 1; round <= options.rounds; round++) {
      for (const subject of round % 2 === 0 ? subjects : subjects.toReversed()) {
        const figures = await turn(subject, options.seconds)
        for (const [work, { count: _, ...sample }] of Object.entries(figures))
          collector.add(`${work} at a host's rate`, subject.name, sample)
      }
      say(`together: round ${round} of ${options.rounds}`)
    }
  } finally {
    receiver.stop()
    await store.close()
    await sql.end({ timeout: 1 })
  }
}

/** Publishes at a steady rate. @returns the times of the calls by event id, in ns of the monotonic clock */
async function publishSteadily(
  publish: (endpoint: number) => readonly [id: string, done: Promise<unknown>],
  seconds: number,
): Promise<ReadonlyMap<string, bigint>> {
  const publishedAt = new Map<string, bigint>()
  const calls: Promise<unknown>[] = []
  const beganAt = performance.now()
  for (let count = 0; count < seconds * EVENTS_PER_SECOND; count++) {
    const waitMs = beganAt + (count * 1000) / EVENTS_PER_SECOND - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    const at = process.hrtime.bigint()
    const [id, done] = publish(count % ENDPOINTS)
    publishedAt.set(id, at)
    calls.push(done)
  }
  await Promise.all(calls)
  return publishedAt
}

/** Waits until every event has arrived. @throws when one is missing */
async function waitForArrivals(
  receiver: Receiver,
  publishedAt: ReadonlyMap<string, bigint>,
): Promise<Sample & { readonly count: number }> {
  const latencies = new Map<string, number>()
  const until = performance.now() + GRACE_MS
  while (latencies.size < publishedAt.size && performance.now() < until) {
    await sleep(50)
    for (const [id, at] of await receiver.arrivals()) {
      const began = publishedAt.get(id)
      if (began !== undefined) latencies.set(id, Number(at - began) / 1e6)
    }
  }
  const count = latencies.size
  if (count < publishedAt.size) throw new Error(`Only ${count} of ${publishedAt.size} events have arrived`)
  const all = [...latencies.values()]
  return { count, p50Ms: percentile(all, 0.5), p99Ms: percentile(all, 0.99) }
}
