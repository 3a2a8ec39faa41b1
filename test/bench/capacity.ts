import { createIds } from '../../lib/base/ids.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import { startDatabase } from './database.ts'
import { addEndpoint } from './deliveries/parts.ts'
import { describeMachine } from './machine.ts'
import { SECRET_KEYS } from './programs/delivering.ts'

// The bytes that a client, an event, a delivery and an attempt take on the disk with all indexes, and the bytes of the write-ahead
// log for a create and for a delivery: ROWS clients are created by the platform's calls, with one endpoint that wants every event,
// so that each makes two events and two deliveries; then a loop delivers them all, to a sender that answers at once. Whole pages
// after a checkpoint are left out, and counted by a run with FULL_PAGE_WRITES=on. For the figures in lib/postgres/OPERATORS.md.

const ROWS = Number(process.env.ROWS ?? 100_000)
const ORGANIZATIONS = 20
const AT_ONCE = 16
const TABLES = ['businesses', 'idempotency_keys', 'events', 'finished_deliveries', 'delivery_attempts']

console.log(describeMachine())
const database = await startDatabase()
const { sql, url } = database
const store = createPostgresStore(url)
const ids = createIds()
try {
  // Without a wait for the disk, which changes no byte of the log, the run is shorter.
  await sql`alter database postgres set synchronous_commit = off`
  await sql`alter system set full_page_writes = ${sql.unsafe(process.env.FULL_PAGE_WRITES ?? 'off')}`
  await sql`select pg_reload_conf()`
  for (let organization = 0; organization < ORGANIZATIONS; organization++) {
    await addEndpoint(store, `org_${organization}`, 'http://127.0.0.1:9999/')
  }
  const platform = createPlatform(store)
  let made = 0
  const createAll = async (): Promise<void> => {
    while (made < ROWS) {
      const number = made++
      await platform.clients.create(`org_${number % ORGANIZATIONS}`, {
        name: `Atlas Ceramics ${number}`,
        city: 'Tunis',
        email: `office${number}@atlas.example`,
        idempotencyKey: ids('req'),
      })
    }
  }
  const beganAt = performance.now()
  const created = await logBytes(() => Promise.all(Array.from({ length: AT_ONCE }, createAll)))
  const rate = ROWS / ((performance.now() - beganAt) / 1000)
  console.log(
    `write-ahead log of a create: ${Math.round(created / ROWS)} bytes, with 2 events and 2 deliveries; ` +
      `${Math.round(rate)} creates a second, without waiting for the disk`,
  )

  const sender = {
    send: async () => ({ status: 200, error: null, bodyExcerpt: 'ok', durationMs: 12 }),
    close: async () => {},
  }
  const loop = createDeliveryLoop(store, sender, { secretKeys: SECRET_KEYS, logger: false })
  const startedAt = performance.now()
  let delivered = 0
  const sent = await logBytes(async () => {
    delivered = (await loop.runOnce()).delivered
  })
  const seconds = (performance.now() - startedAt) / 1000
  console.log(
    `write-ahead log of a delivery: ${Math.round(sent / delivered)} bytes, for the claim and the result; ` +
      `${Math.round(delivered / seconds)} deliveries a second`,
  )
  await sql`vacuum analyze`
  for (const table of TABLES) {
    const [row] = await sql`
      select count(*)::int as rows from business_api.${sql(table)}`
    const [size] = await sql`
      select sum(pg_table_size(part))::float8 as heap, sum(pg_indexes_size(part))::float8 as indexes
      from (
        select relid as part from pg_partition_tree(${`business_api.${table}`}::regclass)
        union
        select ${`business_api.${table}`}::regclass
      ) as parts`
    const rows = Number(row?.rows)
    const each = (bytes: number): number => Math.round(bytes / rows)
    console.log(
      `${table.padEnd(18)} ${rows} rows, ${each(Number(size?.heap))} + ${each(Number(size?.indexes))} bytes a row (table + indexes)`,
    )
  }
} finally {
  await store.close()
  await database.stop()
}

async function logBytes(work: () => Promise<unknown>): Promise<number> {
  const position = async (): Promise<string> => {
    const [row] = await sql`select pg_current_wal_insert_lsn()::text as position`
    return String(row?.position)
  }
  const before = await position()
  await work()
  const [row] =
    await sql`select pg_wal_lsn_diff(${await position()}::pg_lsn, ${before}::pg_lsn)::float8 as bytes`
  return Number(row?.bytes)
}
