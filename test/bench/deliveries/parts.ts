import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createIds } from '../../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../../lib/business-store.ts'
import { ENDPOINT_DEFAULTS, type EndpointChoices } from '../../../lib/webhooks/endpoint-choices.ts'
import { createSecretSealer } from '../../../lib/webhooks/secret-sealing.ts'
import type { EventRecord } from '../../../lib/writes/event-envelope.ts'
import { toTimestamp } from '../../../lib/writes/write-context.ts'
import { newEntry } from '../../_audit.ts'
import { percentile } from '../../_percentile.ts'
import { SECRET_KEYS } from '../programs/delivering.ts'

// The common parts of the delivery benchmarks: subscribers and loops in separate processes, events, percentiles.

/** Subscribers in a separate process. */
export interface Receiver {
  /** The URLs of subscribers that answer at once, that never answer, and that answer 500. */
  readonly healthy: readonly string[]
  readonly silent: readonly string[]
  readonly failing: readonly string[]
  /** The arrivals since the last call: times by event id, in nanoseconds of the machine's monotonic clock. */
  arrivals(): Promise<Map<string, bigint>>
  stop(): void
}

/** Starts subscribers in a separate process. @param healthy the number of endpoints, as also `silent` and `failing` */
export async function startReceiver(healthy: number, silent: number, failing = 0): Promise<Receiver> {
  const child = fork(join(import.meta.dirname, 'receiver.ts'), [JSON.stringify({ healthy, silent, failing })])
  const [ports] = await once(child, 'message')
  const urls = (list: number[]): string[] => list.map((port) => `http://127.0.0.1:${port}/hook`)
  return {
    healthy: urls(ports.healthy),
    silent: urls(ports.silent),
    failing: urls(ports.failing),
    async arrivals() {
      child.send('arrivals')
      const [message] = await once(child, 'message')
      return new Map(message.arrivals.map(([id, at]: [string, string]) => [id, BigInt(at)]))
    },
    stop: () => void child.kill(),
  }
}

/** Starts a delivery loop in a separate process. */
export async function startDeliverer(databaseUrl: string): Promise<ChildProcess> {
  const child = fork(join(import.meta.dirname, 'deliverer.ts'), [databaseUrl])
  await once(child, 'message')
  return child
}

const ids = createIds()
const sealer = createSecretSealer({ secretKeys: SECRET_KEYS })

/** Registers an endpoint, which by default wants every event of the organization. */
export async function addEndpoint(
  store: BusinessApiStore,
  organizationId: string,
  url: string,
  choices: Partial<EndpointChoices> = {},
): Promise<string> {
  const id = ids('we')
  await store.endpoints.insert({
    organizationId,
    limit: 1000,
    endpoint: {
      id,
      url,
      ...ENDPOINT_DEFAULTS,
      ...choices,
      headerNames: [],
      sealedHeaders: null,
      createdAt: toTimestamp(Date.now()),
      sealedSecret: sealer.seal('whsec_benchmark', { organizationId, endpointId: id }),
    },
    entry: newEntry(),
  })
  return id
}

/** An event of the usual size. */
export function newEvent(type = 'project.completed'): EventRecord & { readonly hasNewId: true } {
  const id = ids('evt')
  const createdAt = toTimestamp(Date.now())
  const data = { projectId: 'proj_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC', name: 'x'.repeat(300) }
  const body = JSON.stringify({ id, type, createdAt, data })
  return { id, hasNewId: true, type, body }
}

/** Publishes an event; returns the time at which the publisher saw the commit. */
export async function publish(
  store: BusinessApiStore,
  organizationId: string,
  type?: string,
): Promise<{ id: string; at: bigint }> {
  const event = newEvent(type)
  await store.events.publish(organizationId, event)
  return { id: event.id, at: process.hrtime.bigint() }
}

/** Milliseconds from commit to arrival. @throws when an event has not arrived */
export function latencies(
  published: readonly { id: string; at: bigint }[],
  arrivals: ReadonlyMap<string, bigint>,
): number[] {
  return published.map(({ id, at }) => {
    const arrivedAt = arrivals.get(id)
    if (arrivedAt === undefined) throw new Error(`Event ${id} has not arrived`)
    return Number(arrivedAt - at) / 1e6
  })
}

/** Describes latencies in a line: percentiles and the number of events. @param values in milliseconds */
export function describe(values: readonly number[]): string {
  const [p50, p90, p99] = [0.5, 0.9, 0.99].map((share) => percentile(values, share).toFixed(1))
  return `p50 ${p50} ms, p90 ${p90} ms, p99 ${p99} ms (${values.length} events)`
}
