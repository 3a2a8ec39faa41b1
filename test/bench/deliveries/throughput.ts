import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import postgres from 'postgres'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import { createPostgresStore, migrate } from '../../../lib/postgres.ts'
import { addEndpoint, newEvent, percentile, type Receiver, startReceiver } from './parts.ts'

// The time until a backlog has arrived: each event to one of ten endpoints, signed, over kept connections. In turn on the same
// PostgreSQL: one process of ours; two processes; code as a team would build on a job queue, with a row for each attempt; and
// signed POSTs alone, without a queue and without a database. Read the ratios. The bytes of PostgreSQL's write-ahead log are those
// of a delivery to one endpoint; full_page_writes is off, so that the bytes do not depend on the time of the last checkpoint.

const EVENTS = Number(process.env.EVENTS ?? 10_000)
const ROUNDS = Number(process.env.ROUNDS ?? 3)
const ENDPOINTS = 10
const DELIVERERS = ['ours', 'two of ours', 'graphile-worker', 'signed POSTs alone'] as const
type Deliverer = (typeof DELIVERERS)[number]
const wanted = DELIVERERS.filter((name) => !process.env.ONLY || process.env.ONLY.split(',').includes(name))

/** A measured round. */
interface Round {
  /** Events per second. */
  readonly rate: number
  /** Bytes of the write-ahead log for each event. */
  readonly publishBytes: number
  readonly deliverBytes: number
}

const database = await startPostgres()
const sql = postgres(database.url, { max: 1, onnotice: () => {} })
const receiver = await startReceiver(ENDPOINTS, 0)
try {
  await prepare(receiver)
  const rounds = new Map(wanted.map((name) => [name, [] as Round[]]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, measured] of rounds) measured.push(await measure(name, receiver))
  }
  for (const [name, measured] of rounds) report(name, measured)
  compare(rounds, 'ours', 'signed POSTs alone', 0.65)
  compare(rounds, 'ours', 'graphile-worker', 5)
  compare(rounds, 'two of ours', 'ours', 1.2)
} finally {
  receiver.stop()
  await sql.end()
  await database.stop()
}

function report(name: Deliverer, rounds: readonly Round[]): void {
  const rates = rounds.map(({ rate }) => Math.round(rate))
  const [publish, deliver] = (['publishBytes', 'deliverBytes'] as const).map((part) =>
    Math.round(
      percentile(
        rounds.map((round) => round[part]),
        0.5,
      ),
    ),
  )
  const bytes =
    name === 'signed POSTs alone' ? '' : `; WAL bytes per event: publish ${publish}, deliver ${deliver}`
  console.log(`${name}: ${percentile(rates, 0.5)} events per second (${rates.join(', ')})${bytes}`)
}

function compare(
  rounds: ReadonlyMap<Deliverer, readonly Round[]>,
  one: Deliverer,
  other: Deliverer,
  goal: number,
): void {
  const [mine = [], theirs = []] = [rounds.get(one), rounds.get(other)]
  if (mine.length === 0 || theirs.length === 0) return
  const ratio = percentile(
    mine.map(({ rate }, round) => rate / (theirs[round]?.rate ?? Number.NaN)),
    0.5,
  )
  console.log(`${one} / ${other}: ${ratio.toFixed(2)}; goal ${goal} ${ratio >= goal ? 'met' : 'MISSED'}`)
}

async function prepare({ healthy }: Receiver): Promise<void> {
  await migrate(database.url)
  const store = createPostgresStore(database.url)
  for (const [index, url] of healthy.entries()) await addEndpoint(store, `org_${index}`, url)
  await store.close()
  await sql`create table attempts (id bigserial primary key, event_id text, at timestamptz default now(), ms real, status int)`
  await run('prepare')
}

async function measure(name: Deliverer, { healthy, arrivals }: Receiver): Promise<Round> {
  const jobs = Array.from({ length: EVENTS }, (_, index) => ({
    ...newEvent(),
    url: healthy[index % ENDPOINTS],
  }))
  const bytesBefore = await readWal()
  await publish(name, jobs)
  const bytesPublished = await readWal()
  await sql`vacuum analyze`
  const bytesVacuumed = await readWal()
  await arrivals()
  const deliverers = await Promise.all(
    Array.from({ length: name === 'two of ours' ? 2 : 1 }, () => start(name, jobs)),
  )
  const startedAt = performance.now()
  for (let count = 0; count < EVENTS; count += (await arrivals()).size)
    await new Promise((resolve) => setTimeout(resolve, 25))
  const rate = (EVENTS / (performance.now() - startedAt)) * 1000
  await Promise.all(deliverers.map(stop))
  return {
    rate,
    publishBytes: (bytesPublished - bytesBefore) / EVENTS,
    deliverBytes: ((await readWal()) - bytesVacuumed) / EVENTS,
  }
}

async function publish(name: Deliverer, jobs: readonly unknown[]): Promise<void> {
  if (name === 'signed POSTs alone') return
  if (name === 'graphile-worker') return run('publish', jobs)
  for (let index = 0; index < ENDPOINTS; index++) {
    const events = jobs.filter((_, place) => place % ENDPOINTS === index)
    await sql`select business_api.insert_events(${`org_${index}`}, ${JSON.stringify(events)}::text::jsonb)`
  }
}

/** Reads the place in the write-ahead log, in bytes. */
async function readWal(): Promise<number> {
  const [row] = await sql`select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as bytes`
  return Number(row?.bytes)
}

async function start(name: Deliverer, jobs: readonly unknown[]): Promise<ChildProcess> {
  const isOurs = name === 'ours' || name === 'two of ours'
  const what = name === 'graphile-worker' ? 'deliver' : 'send'
  const child = isOurs
    ? fork(join(import.meta.dirname, 'deliverer.ts'), [database.url])
    : fork(join(import.meta.dirname, 'peer.ts'), [database.url, what])
  if (what === 'send' && !isOurs) child.send({ jobs })
  await once(child, 'message')
  return child
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.disconnect()
  await ended
}

async function run(what: string, jobs?: readonly unknown[]): Promise<void> {
  const child = fork(join(import.meta.dirname, 'peer.ts'), [database.url, what])
  const ended = once(child, 'exit')
  if (jobs) child.send({ jobs })
  await ended
}
