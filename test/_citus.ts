import { randomBytes } from 'node:crypto'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { migrate } from '../lib/postgres/schema/migrate.ts'
import type { TestDatabase } from './_database.ts'
import { type NetworkProxy, startProxy } from './faults/_proxy.ts'

// Real databases on a Citus cluster, for tests that say by name what is skipped without one. CITUS_URL is a connection string of the
// coordinator, to a database with the extension and the nodes; the user may create databases on every node.

/** The options of a test that needs a cluster. */
export const WITH_CITUS: { readonly skip: string | false } = {
  skip: process.env.CITUS_URL ? false : 'CITUS_URL names no Citus cluster',
}

const PROCESS_ID = randomBytes(4).toString('hex')
let databases = 0

/** A node of the cluster, as a test sees it. */
export interface CitusNode {
  /** The connection string of the test's database on the node, past the proxy. */
  readonly url: string
  /** The host and the port by which the other nodes know the node. */
  readonly port: number
  /** False for the coordinator. */
  readonly isWorker: boolean
  /** Stands between the node and the other nodes, for this database only. Undefined without option `proxied`. */
  readonly proxy?: NetworkProxy
}

/** A database of a cluster. */
export interface CitusDatabase extends TestDatabase {
  /** The coordinator first. */
  readonly nodes: readonly CitusNode[]
}

/** Options of a database on a cluster. */
export interface CitusDatabaseOptions {
  /** True: the nodes reach each worker by way of a proxy of this process, so that a test can take the worker away. */
  readonly proxied?: boolean
  /** The workers that are added; others are named in `nodes`, but have the extension only. Default: all. */
  readonly workers?: number
}

/** Makes an empty database on every node of the cluster, with the extension and the same nodes. */
export async function createEmptyCitusDatabase({
  proxied = false,
  workers = Number.POSITIVE_INFINITY,
}: CitusDatabaseOptions = {}): Promise<CitusDatabase> {
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
  const known: CitusNode[] = []
  for (const [place, { host, port, isWorker }] of nodes.entries()) {
    const url = urls[place]?.(name) ?? ''
    const proxy = proxied && isWorker ? await startProxy(url) : undefined
    const ownPort = proxy ? Number(new URL(proxy.url).port) : port
    known.push({ url, port: ownPort, isWorker, ...(proxy && { proxy }) })
    if (place > workers) continue
    await withSql(known[0]?.url ?? '', (sql) =>
      isWorker
        ? sql`select citus_add_node(${proxy ? '127.0.0.1' : host}, ${ownPort})`
        : sql`select citus_set_coordinator_host(${host}, ${port})`,
    )
  }
  const url = known[0]?.url ?? ''
  const pools: postgres.Sql[] = []
  return {
    url,
    nodes: known,
    sql: (options) => {
      const pool = postgres(url, { onnotice: () => {}, ...options })
      pools.push(pool)
      return pool
    },
    drop: async () => {
      await Promise.all(pools.map((pool) => pool.end({ timeout: 1 })))
      // A worker that was away may hold prepared transactions, which keep the database from being dropped.
      for (const node of urls) await withSql(node(name), rollBackPrepared).catch(() => undefined)
      for (const node of urls) {
        await withSql(node('postgres'), (sql) => sql`drop database if exists ${sql(name)} with (force)`)
      }
      await Promise.all(known.map(({ proxy }) => proxy?.close()))
    },
  }
}

/** Makes a migrated and distributed database. */
export async function createCitusDatabase(options?: CitusDatabaseOptions): Promise<CitusDatabase> {
  const database = await createEmptyCitusDatabase(options)
  await migrate(database.url, { distributed: true })
  return database
}

/**
 * Writes records of an organization as a host does by SQL of its own: on a cluster the organization's node carries out the statement, so
 * that the records name a transaction of the node.
 *
 * @param statement has the organization as `$1`, and returns a row of text
 */
export async function writeBySql(sql: Sql, organizationId: string, statement: string): Promise<void> {
  if (process.env.TEST_ON_CITUS !== '1') await sql.unsafe(statement, [organizationId])
  else {
    const given = JSON.stringify([organizationId])
    await sql`select business_api.ask_shard(${organizationId}, ${statement}, ${given})`
  }
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

async function rollBackPrepared(sql: Sql): Promise<void> {
  const rows = await sql<
    { gid: string }[]
  >`select gid from pg_prepared_xacts where database = current_database()`
  for (const { gid } of rows) await sql.unsafe(`rollback prepared '${gid.replaceAll("'", "''")}'`)
}
