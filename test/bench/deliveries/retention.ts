import postgres from 'postgres'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import { createPostgresStore, migrate, type PostgresStore } from '../../../lib/postgres.ts'
import { makeManyDeliveries } from '../../_many-deliveries.ts'
import { percentile } from '../../_percentile.ts'

// The cost of a part of a purge (1,000 events with deliveries and attempts) with few deliveries and with many, by one process and
// by four at once. The goal: at most 1.5 times as much with ten times as many deliveries.
//
//   tsx test/bench/deliveries/retention.ts 1000000 10000000

const SIZES = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [200_000, 2_000_000]
const PROCESSES = [1, 4]
const ROUNDS = 5
/** Of a size in a round. */
const PARTS = 8
const RETENTION_MS = 30 * 24 * 60 * 60 * 1000

const server = await startPostgres({ postgresFlags: ['-c', 'shared_buffers=1GB', '-c', 'max_wal_size=4GB'] })
try {
  const databases = new Map<number, readonly PostgresStore[]>()
  for (const size of SIZES) databases.set(size, await fill(size))
  for (const processes of PROCESSES) await compare(databases, processes)
  for (const stores of databases.values()) await Promise.all(stores.map((store) => store.close()))
} finally {
  await server.stop()
}

/** Makes a database of a size. @returns the stores of as many processes as there will be at once */
async function fill(size: number): Promise<readonly PostgresStore[]> {
  const begunAt = performance.now()
  const url = await createDatabase(`size_${size}`)
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  // Enough old events for all parts, however few deliveries there are.
  const oldEvents = (PROCESSES.length * ROUNDS * PARTS + 10) * 1000
  await makeManyDeliveries(sql, {
    events: size,
    days: 30 / (1 - Math.max(0.02, oldEvents / size)),
    organizations: 20,
  })
  await sql.end()
  console.log(`${count(size)} deliveries made in ${Math.round((performance.now() - begunAt) / 1000)} s`)
  return Array.from({ length: Math.max(...PROCESSES) }, () => createPostgresStore(url))
}

/** Sizes take turns: a machine is not always as fast. */
async function compare(
  databases: ReadonlyMap<number, readonly PostgresStore[]>,
  processes: number,
): Promise<void> {
  const times = new Map<number, number[]>(SIZES.map((size) => [size, []]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [size, stores] of databases) {
      times.get(size)?.push(...(await purgeBy(stores.slice(0, processes))))
    }
  }
  const medians = SIZES.map((size) => percentile(times.get(size) ?? [], 0.5))
  for (const [index, size] of SIZES.entries()) {
    const p90 = percentile(times.get(size) ?? [], 0.9)
    const ratio = (medians[index] ?? Number.NaN) / (medians[0] ?? Number.NaN)
    const judgement =
      index === 0 ? '' : `; ratio ${ratio.toFixed(2)}, goal 1.5 ${ratio <= 1.5 ? 'met' : 'MISSED'}`
    console.log(
      `${processes} at once, ${count(size)} deliveries: a part of 1,000 takes ${medians[index]?.toFixed(1)} ms, ` +
        `p90 ${p90.toFixed(1)} ms (${times.get(size)?.length} parts)${judgement}`,
    )
  }
}

/** Purges without rests. @returns the times of the parts that have purged */
async function purgeBy(stores: readonly PostgresStore[]): Promise<readonly number[]> {
  const times: number[] = []
  await Promise.all(
    stores.map(async ({ deliveries }) => {
      while (times.length < PARTS) {
        const begunAt = performance.now()
        const { events } = await deliveries.continuePurge({
          eventsAfterMs: RETENTION_MS,
          limit: 1000,
          share: 1,
        })
        if (events === 1000) times.push(performance.now() - begunAt)
        // Another process has the turn.
        else await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }),
  )
  return times
}

async function createDatabase(name: string): Promise<string> {
  const sql = postgres(server.url, { max: 1 })
  await sql`create database ${sql(name)}`
  await sql.end()
  const url = new URL(server.url)
  url.pathname = `/${name}`
  await migrate(url.href)
  return url.href
}

function count(number = 0): string {
  return number.toLocaleString('en-US')
}
