import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import type { BusinessApiStore } from '../../../lib/business-store.ts'
import { createPostgresStore, migrate } from '../../../lib/postgres.ts'
import { percentile } from '../../_percentile.ts'
import { addEndpoint, describe, latencies, publish, startDeliverer, startReceiver } from './parts.ts'
import type { Stalls } from './stalls.ts'

// An organization's webhooks beside another organization with 96 endpoints that answer without end: six floods, 16 endpoints
// each. From commit to arrival on an idle system, beside 96 endpoints that answer 500, which cost the loop as many attempts and
// results, and beside the floods. The goals: p50 less than twice that of the idle system, and no stall of the event loop of 50 ms
// by work of its own. The endpoints of both kinds share two processors with the loop here.

const SECONDS = Number(process.env.SECONDS ?? 20)
/** Events a second of the measured organization, and of the other organization, with 96 attempts for each event. */
const EVENTS = 20
const FLOOD_EVENTS = Number(process.env.FLOOD_EVENTS ?? 1)
const PER_FLOOD = 16
const STALL_MAX_MS = 50

const database = await startPostgres()
const flooder = fork(join(import.meta.dirname, 'flooder.ts'), [String(PER_FLOOD)])
const [floodPorts] = (await once(flooder, 'message')) as [number[]]
const receiver = await startReceiver(1, 0, floodPorts.length)
try {
  await migrate(database.url)
  const store = createPostgresStore(database.url)
  await addEndpoint(store, 'org_measured', receiver.healthy[0] ?? '')
  for (const url of receiver.failing) await addEndpoint(store, 'org_failing', url)
  for (const port of floodPorts) await addEndpoint(store, 'org_flooded', `http://127.0.0.1:${port}/hook`)
  const deliverer = await startDeliverer(database.url)

  await measure(store, deliverer, 'org_failing', 5)
  const idle = await measure(store, deliverer, null, SECONDS)
  report('before', idle, idle)
  report('beside 96 failing endpoints', await measure(store, deliverer, 'org_failing', SECONDS), idle)
  report('beside 96 floods', await measure(store, deliverer, 'org_flooded', SECONDS), idle)

  const ended = once(deliverer, 'exit')
  deliverer.disconnect()
  await ended
  await store.close()
} finally {
  flooder.kill()
  receiver.stop()
  await database.stop()
}

interface Measured {
  readonly latencies: number[]
  readonly stalls: Stalls
}

async function measure(
  store: BusinessApiStore,
  deliverer: ChildProcess,
  beside: string | null,
  seconds: number,
): Promise<Measured> {
  await readStalls(deliverer)
  await receiver.arrivals()
  const published: { id: string; at: bigint }[] = []
  const beganAt = performance.now()
  for (let index = 0; index < seconds * EVENTS; index++) {
    await sleep(Math.max(0, beganAt + (index * 1000) / EVENTS - performance.now()))
    if (beside && index % (EVENTS / FLOOD_EVENTS) === 0) await publish(store, beside)
    published.push(await publish(store, 'org_measured'))
  }
  const stalls = await readStalls(deliverer)
  return { latencies: latencies(published, await readArrivals(published.map(({ id }) => id))), stalls }
}

/** Waits for a number of events, which take long beside a held event loop. */
async function readArrivals(ids: readonly string[]): Promise<Map<string, bigint>> {
  const arrived = new Map<string, bigint>()
  const until = performance.now() + 120_000
  while (performance.now() < until && !ids.every((id) => arrived.has(id))) {
    await sleep(500)
    for (const [id, at] of await receiver.arrivals()) arrived.set(id, at)
  }
  return arrived
}

async function readStalls(deliverer: ChildProcess): Promise<Stalls> {
  deliverer.send('stalls')
  const [stalls] = await once(deliverer, 'message')
  return stalls
}

function report(what: string, { latencies: values, stalls }: Measured, idle: Measured): void {
  const ratio = percentile(values, 0.5) / percentile(idle.latencies, 0.5)
  const { longestMs, longestOwnMs, cpuMs } = stalls
  const isMet = ratio < 2 && longestOwnMs < STALL_MAX_MS
  console.log(
    `${what}: ${describe(values)}; p50 ${ratio.toFixed(2)} times idle; longest stall ${longestOwnMs.toFixed(1)} ms of its own ` +
      `work (${longestMs.toFixed(1)} ms by the clock), ${(cpuMs / 1000).toFixed(1)} s of processor; ` +
      `goal below 2 and ${STALL_MAX_MS} ms ${isMet ? 'met' : 'MISSED'}`,
  )
}
