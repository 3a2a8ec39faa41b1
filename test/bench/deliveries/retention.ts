import postgres from 'postgres'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import { createPostgresStore, migrate, type PostgresStore } from '../../../lib/postgres.ts'
import type { SharedPurgeReport } from '../../../lib/webhooks/deliveries.ts'
import { makeManyDeliveries } from '../../_many-deliveries.ts'
import { percentile } from '../../_percentile.ts'

// The cost of retention with few deliveries and with many: of the drop of a day, and of a part of a purge row by row (1,000 events with
// deliveries and attempts) in days that an open delivery keeps, by one process and by four at once. The goals: a day goes in less than
// a second, and a part takes at most 1.5 times as long with ten times as many deliveries.
//
//   tsx test/bench/deliveries/retention.ts 1000000 10000000

const SIZES = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [200_000, 2_000_000]
const DAYS = 60
const RETENTION_DAYS = 30
/** Of the days beyond the retention, those up to this age are kept by an open delivery. Enough events for all parts. */
const KEPT_DAYS = 46
const PROCESSES = [1, 4]
const ROUNDS = 4
/** Of a size in a round. */
const PARTS = 4
/** Milliseconds after which a purge has not found what it is to measure. */
const SEARCH_MS = 60_000
const DAY_MS = 24 * 60 * 60 * 1000

const server = await startPostgres({ postgresFlags: ['-c', 'shared_buffers=1GB', '-c', 'max_wal_size=4GB'] })
try {
  const databases = new Map<number, readonly PostgresStore[]>()
  for (const size of SIZES) databases.set(size, await fill(size))
  await dropDays(databases)
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
  await makeManyDeliveries(sql, { events: size, days: DAYS, organizations: 20 })
  await sql`
    insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
    select 'org_0', begins || 'KEPT', 'evt_kept', 'project.completed', 'we_kept', 'infinity'
    from business_api.event_days
    where ends_at between now() - ${KEPT_DAYS} * interval '1 day' and now() - ${RETENTION_DAYS} * interval '1 day'`
  await sql.end()
  console.log(`${count(size)} deliveries made in ${Math.round((performance.now() - begunAt) / 1000)} s`)
  return Array.from({ length: Math.max(...PROCESSES) }, () => createPostgresStore(url))
}

/** Drops the days that nothing keeps. Sizes take turns: a machine is not always as fast. */
async function dropDays(databases: ReadonlyMap<number, readonly PostgresStore[]>): Promise<void> {
  const times = new Map<number, number[]>(SIZES.map((size) => [size, []]))
  for (let day = 0; day < DAYS - KEPT_DAYS - 2; day++) {
    for (const [size, [store]] of databases)
      times.get(size)?.push(await purgeUntil(store, ({ days }) => days === 1))
  }
  for (const size of SIZES) {
    const [median, slowest] = [0.5, 1].map((share) => percentile(times.get(size) ?? [], share))
    console.log(
      `${count(size)} deliveries: the drop of a day of ${count(Math.round(size / DAYS))} takes ${median?.toFixed(1)} ms, ` +
        `slowest ${slowest?.toFixed(1)} ms (${times.get(size)?.length} days); goal 1,000 ms ${(slowest ?? Number.NaN) < 1000 ? 'met' : 'MISSED'}`,
    )
  }
}

/** Sizes take turns. */
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

/** Purges without rests. @returns the times of the parts that have purged 1,000 events row by row */
async function purgeBy(stores: readonly PostgresStore[]): Promise<readonly number[]> {
  const times: number[] = []
  await Promise.all(
    stores.map(async (store) => {
      while (times.length < PARTS) {
        times.push(await purgeUntil(store, ({ events, days }) => days === 0 && events === 1000))
      }
    }),
  )
  return times
}

/** Purges until a part has done what is to be measured. @returns the time of that part */
async function purgeUntil(
  store: PostgresStore | undefined,
  isWanted: (done: SharedPurgeReport) => boolean,
): Promise<number> {
  if (store === undefined) throw new Error('Cannot purge because the size has no database')
  const searchedAt = performance.now()
  while (performance.now() - searchedAt < SEARCH_MS) {
    const begunAt = performance.now()
    const done = await store.deliveries.continuePurge({
      eventsAfterMs: RETENTION_DAYS * DAY_MS,
      limit: 1000,
      share: 1,
    })
    if (isWanted(done)) return performance.now() - begunAt
    // Another process has the turn.
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error(
    `Cannot measure the purge because no part did what is to be measured within ${SEARCH_MS} ms`,
  )
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
