import { setTimeout as sleep } from 'node:timers/promises'
import { createPostgresStore } from '../../../lib/postgres.ts'
import { type Child, startChild } from '../children.ts'
import { type BenchDatabase, readWalBytes } from '../database.ts'
import { addEndpoint, newEvent } from '../deliveries/parts.ts'
import type { Sample } from '../figures.ts'
import { coresSince, readCpu, readRssMb } from '../machine.ts'
import { startRedis } from '../redis.ts'
import type { Part, PartContext } from './part.ts'

const ENDPOINTS = 10
const WORK_TIMEOUT_MS = 60_000
/** The backlog of the first round, for each second; afterwards the rate of the previous round decides. */
const FIRST_GUESS = 500

/** Something that delivers a backlog. */
interface Subject {
  readonly name: string
  readonly program: string
  readonly args: readonly string[]
  readonly processes: number
}

interface Receiver {
  readonly child: Child
  readonly urls: readonly string[]
}

/** The rate at which a backlog arrives at ten healthy endpoints, beside job queues and beside POSTs without a database. */
export const deliveries: Part = async (context) => {
  const { options, database, collector, say } = context
  const child = await startChild('receiver', [String(ENDPOINTS)])
  const ports = child.first.ports as readonly number[]
  const receiver = { child, urls: ports.map((port) => `http://127.0.0.1:${port}/hook`) }
  const store = createPostgresStore(database.url)
  for (const [index, url] of receiver.urls.entries()) await addEndpoint(store, `org_${index}`, url)
  await store.close()
  await database.sql`
    create table peer.attempts (id bigserial primary key, event_id text, at timestamptz default now(), ms real, status int)`
  const redis = await startRedis()
  if (redis === null)
    collector.leaveOut(
      'BullMQ: no Redis; set REDIS_URL or install redis-server (apt-get install redis-server)',
    )
  try {
    const subjects = listSubjects(database.url, redis?.url)
    const rates = new Map<string, number>()
    for (let round = 1; round <= options.rounds; round++) {
      for (const subject of subjects) {
        const count =
          ENDPOINTS * Math.ceil(((rates.get(subject.name) ?? FIRST_GUESS) * options.seconds) / ENDPOINTS)
        rates.set(subject.name, await measure(context, receiver, subject, count))
      }
      say(`deliveries: round ${round} of ${options.rounds}`)
    }
  } finally {
    await redis?.stop()
  }
}

function listSubjects(url: string, redisUrl: string | undefined): readonly Subject[] {
  const one = { args: [url], processes: 1 }
  return [
    { name: 'ours', program: 'our-deliverer', ...one },
    { name: 'ours, 2 processes', program: 'our-deliverer', args: [url], processes: 2 },
    { name: 'raw signed POSTs', program: 'raw-posts', ...one },
    { name: 'graphile-worker', program: 'graphile-worker', ...one },
    { name: 'pg-boss', program: 'pg-boss', ...one },
    ...(redisUrl === undefined
      ? []
      : [{ name: 'BullMQ', program: 'bullmq', args: [url, redisUrl], processes: 1 }]),
  ]
}

/** Publishes a backlog and delivers the backlog. @returns the rate, for the backlog of the next round */
async function measure(
  { database, collector, options }: PartContext,
  receiver: Receiver,
  { name, program, args, processes }: Subject,
  count: number,
): Promise<number> {
  const children: Child[] = []
  while (children.length < processes) children.push(await startChild(program, args))
  const walBefore = await readWalBytes(database.sql)
  if (program === 'our-deliverer') await publish(database, count)
  else await children[0]?.ask({ jobs: makeJobs(receiver, count) }, WORK_TIMEOUT_MS)
  const walBetween = await readWalBytes(database.sql)
  await database.sql`vacuum analyze`
  const sample = await deliver(database, receiver, children, count, options.seconds)
  for (const child of children) await child.stop()
  const usesPostgres = name !== 'raw signed POSTs'
  collector.add('publish', name, usesPostgres ? { walBytes: (walBetween - walBefore) / count } : {})
  const { walBytes, ...rest } = sample
  collector.add('deliver', name, usesPostgres ? sample : rest)
  return sample.perSecond
}

async function deliver(
  { sql }: BenchDatabase,
  receiver: Receiver,
  children: readonly Child[],
  count: number,
  seconds: number,
): Promise<Sample & { readonly perSecond: number; readonly walBytes: number }> {
  const pids = children.map(({ pid }) => pid)
  const [receiverPid, walBefore] = [[receiver.child.pid], await readWalBytes(sql)]
  await receiver.child.ask({ reset: true }, WORK_TIMEOUT_MS)
  const [before, receiverBefore] = [readCpu(pids), readCpu(receiverPid)]
  await Promise.all(children.map((child) => child.ask({ deliver: true }, WORK_TIMEOUT_MS)))
  const until = performance.now() + WORK_TIMEOUT_MS + seconds * 10_000
  let arrived = { count: 0, seconds: 0 }
  while (arrived.count < count) {
    if (performance.now() > until) throw new Error(`Only ${arrived.count} of ${count} events have arrived`)
    await sleep(25)
    arrived = await receiver.child.ask({}, WORK_TIMEOUT_MS)
  }
  const cores = coresSince(before, readCpu(pids))
  const { serverCores: loadCores } = coresSince(receiverBefore, readCpu(receiverPid))
  const rssMb = readRssMb(pids)
  // The last results are written after the last arrival.
  await sleep(500)
  const walBytes = ((await readWalBytes(sql)) - walBefore) / count
  return { perSecond: count / arrived.seconds, walBytes, loadCores, ...cores, rssMb }
}

async function publish({ sql }: BenchDatabase, count: number): Promise<void> {
  for (let index = 0; index < ENDPOINTS; index++) {
    const events = Array.from({ length: count / ENDPOINTS }, newEvent)
    await sql`select business_api.insert_events(${`org_${index}`}, ${JSON.stringify(events)}::text::jsonb)`
  }
}

function makeJobs({ urls }: Receiver, count: number): readonly object[] {
  return Array.from({ length: count }, (_, index) => ({ ...newEvent(), url: urls[index % ENDPOINTS] }))
}
