import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import { migrate } from '../lib/postgres/schema/migrate.ts'
import type { TestDatabase } from './_database.ts'

// Real databases on a Citus cluster, for tests that say by name what is skipped without one. CITUS_URL is a connection string of the
// coordinator, to a database with the extension and the nodes; the user may create databases on every node.

/** The options of a test that needs a cluster. */
export const WITH_CITUS: { readonly skip: string | false } = {
  skip: process.env.CITUS_URL ? false : 'CITUS_URL names no Citus cluster',
}

const PROCESS_ID = randomBytes(4).toString('hex')
let databases = 0

/** Makes an empty database on every node of the cluster, with the extension and the same nodes. */
export async function createEmptyCitusDatabase(): Promise<TestDatabase> {
  const cluster = process.env.CITUS_URL ?? ''
  databases++
  const name = `business_api_citus_${PROCESS_ID}_${databases}`
  const nodes = await withSql(
    cluster,
    (sql) =>
      sql<{ host: string; port: number; isWorker: boolean }[]>`
      select nodename as host, nodeport as port, groupid <> 0 as "isWorker" from pg_dist_node order by groupid`,
  )
  const urls = nodes.map(({ host, port }) => urlOf(cluster, host, port))
  for (const url of urls) {
    await withSql(url('postgres'), (sql) => sql`create database ${sql(name)}`)
    await withSql(url(name), (sql) => sql`create extension citus`)
  }
  const [coordinator] = urls
  const url = coordinator?.(name) ?? ''
  await withSql(url, async (sql) => {
    for (const { host, port, isWorker } of nodes) {
      await (isWorker
        ? sql`select citus_add_node(${host}, ${port})`
        : sql`select citus_set_coordinator_host(${host}, ${port})`)
    }
  })
  const pools: postgres.Sql[] = []
  return {
    url,
    sql: (options) => {
      const pool = postgres(url, { onnotice: () => {}, ...options })
      pools.push(pool)
      return pool
    },
    drop: async () => {
      await Promise.all(pools.map((pool) => pool.end({ timeout: 1 })))
      for (const node of urls) {
        await withSql(node('postgres'), (sql) => sql`drop database if exists ${sql(name)} with (force)`)
      }
    },
  }
}

/** Makes a migrated and distributed database. */
export async function createCitusDatabase(): Promise<TestDatabase> {
  const database = await createEmptyCitusDatabase()
  await migrate(database.url, { distributed: true })
  return database
}

function urlOf(cluster: string, host: string, port: number): (database: string) => string {
  return (database) => {
    const url = new URL(cluster)
    url.hostname = host
    url.port = String(port)
    url.pathname = `/${database}`
    return url.href
  }
}

async function withSql<Result>(
  url: string,
  work: (sql: postgres.Sql) => PromiseLike<Result>,
): Promise<Result> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    return await work(sql)
  } finally {
    await sql.end({ timeout: 1 })
  }
}
