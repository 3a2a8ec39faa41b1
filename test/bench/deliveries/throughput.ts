import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import postgres from 'postgres'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import { createPostgresStore, migrate } from '../../../lib/postgres.ts'
import { addEndpoint, newEvent, percentile, type Receiver, startReceiver } from './parts.ts'

// The time until a backlog has arrived, in turn with code as a team would build on a job queue: each event to one of ten
// endpoints, signed, over kept connections, with a row for each attempt. Each runs in a single process, in turn on the same
// PostgreSQL; read the ratios.

const EVENTS = Number(process.env.EVENTS ?? 10_000)
const ROUNDS = Number(process.env.ROUNDS ?? 3)
const ENDPOINTS = 10
const DELIVERERS = ['ours', 'graphile-worker'] as const
type Deliverer = (typeof DELIVERERS)[number]

const database = await startPostgres()
const sql = postgres(database.url, { max: 1, onnotice: () => {} })
const receiver = await startReceiver(ENDPOINTS, 0)
try {
  await prepare(receiver)
  const rates: Record<Deliverer, number[]> = { ours: [], 'graphile-worker': [] }
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of DELIVERERS) rates[name].push(await measure(name, receiver))
  }
  for (const name of DELIVERERS) {
    console.log(
      `${name}: ${Math.round(percentile(rates[name], 0.5))} events per second (${rates[name].map(Math.round).join(', ')})`,
    )
  }
  const ratios = rates.ours.map((rate, round) => rate / (rates['graphile-worker'][round] ?? Number.NaN))
  console.log(`ours / graphile-worker: ${percentile(ratios, 0.5).toFixed(2)}`)
} finally {
  receiver.stop()
  await sql.end()
  await database.stop()
}

async function prepare({ healthy }: Receiver): Promise<void> {
  await migrate(database.url)
  const store = createPostgresStore(database.url)
  for (const [index, url] of healthy.entries()) await addEndpoint(store, `org_${index}`, url)
  await store.close()
  await sql`create table attempts (id bigserial primary key, event_id text, at timestamptz default now(), ms real, status int)`
  await run('prepare')
}

async function measure(name: Deliverer, { healthy, arrivals }: Receiver): Promise<number> {
  if (name === 'ours') {
    for (let index = 0; index < ENDPOINTS; index++) {
      const events = Array.from({ length: EVENTS / ENDPOINTS }, newEvent)
      await sql`select business_api.insert_events(${`org_${index}`}, ${JSON.stringify(events)}::text::jsonb)`
    }
  } else {
    const jobs = Array.from({ length: EVENTS }, (_, index) => ({
      ...newEvent(),
      url: healthy[index % ENDPOINTS],
    }))
    await run('publish', jobs)
  }
  await sql`vacuum analyze`
  await arrivals()
  const deliverer = await start(name)
  const startedAt = performance.now()
  for (let count = 0; count < EVENTS; count += (await arrivals()).size)
    await new Promise((resolve) => setTimeout(resolve, 25))
  const rate = (EVENTS / (performance.now() - startedAt)) * 1000
  const ended = once(deliverer, 'exit')
  deliverer.disconnect()
  await ended
  return rate
}

async function start(name: Deliverer): Promise<ChildProcess> {
  const child =
    name === 'ours'
      ? fork(join(import.meta.dirname, 'deliverer.ts'), [database.url])
      : fork(join(import.meta.dirname, 'peer.ts'), [database.url, 'deliver'])
  await once(child, 'message')
  return child
}

async function run(what: string, jobs?: unknown): Promise<void> {
  const child = fork(join(import.meta.dirname, 'peer.ts'), [database.url, what])
  const ended = once(child, 'exit')
  if (jobs) child.send({ jobs })
  await ended
}
