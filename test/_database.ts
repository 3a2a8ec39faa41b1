import { createHash, randomBytes } from 'node:crypto'
import postgres from 'postgres'
import { startPostgres } from '../examples/demo/postgres.ts'
import { migrate } from '../lib/postgres/schema/migrate.ts'
import { readMigrationTexts } from '../lib/postgres/schema/migration-texts.ts'

// Real databases for tests, on the server of DATABASE_URL. Without DATABASE_URL the first call starts a server that ends with
// this process.

/** The database of a test file. */
export interface TestDatabase {
  readonly url: string
  /** Opens a pool to the database, which {@link TestDatabase.drop} ends. */
  sql(options?: postgres.Options<Record<never, never>>): postgres.Sql
  /** Ends the pools made by {@link TestDatabase.sql} and removes the database, in spite of open connections. */
  drop(): Promise<void>
}

export const TEST_SERVER_FLAGS: readonly string[] = [
  // Not UTC and not a whole hour, so that code that relies on the server's setting fails at once.
  ...['-c', 'timezone=Asia/Kolkata'],
  // PostgreSQL drops no database while a session waits for its client's password. In tests of silent networks clients never
  // send theirs, and the waiting transactions hold back the oldest running ID of the whole server.
  ...['-c', 'authentication_timeout=10s'],
]

// "template" in ASCII: one process at a time makes the template database.
const TEMPLATE_LOCK_KEY = '8387795576798901349'

// Distinguishes processes, also processes of other machines that share the server.
const PROCESS_ID = randomBytes(4).toString('hex')
let databases = 0

let startedServer: Promise<string> | undefined

/** Makes a fresh, migrated database: a copy of a template that is migrated once for each state of sql/. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const server = await serverUrl()
  return withAdministrator(server, async (sql) => {
    const template = await prepareTemplate(sql, server)
    return createDatabase(sql, server, template)
  })
}

/** Makes an empty database for a test that migrates. */
export async function createEmptyDatabase(): Promise<TestDatabase> {
  const server = await serverUrl()
  return withAdministrator(server, (sql) => createDatabase(sql, server, 'template1'))
}

async function serverUrl(): Promise<string> {
  if (process.env.DATABASE_URL) return process.env.DATABASE_URL
  // Never stopped from here: the server ends with the process, even after a crash, and does not keep the process alive.
  startedServer ??= startPostgres({ postgresFlags: TEST_SERVER_FLAGS }).then(({ url }) => url)
  return startedServer
}

async function withAdministrator<T>(server: string, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  // A single connection, because the advisory lock belongs to the connection.
  const sql = postgres(server, { max: 1, onnotice: () => {} })
  try {
    return await work(sql)
  } catch (cause) {
    if (!(cause instanceof postgres.PostgresError) || cause.code !== '42501') throw cause
    throw new Error('Cannot make a test database: the user of DATABASE_URL needs the right CREATEDB', {
      cause,
    })
  } finally {
    await sql.end()
  }
}

async function createDatabase(sql: postgres.Sql, server: string, template: string): Promise<TestDatabase> {
  databases++
  const name = `business_api_test_${PROCESS_ID}_${databases}`
  await sql`create database ${sql(name)} template ${sql(template)}`
  return testDatabase(server, name)
}

function testDatabase(server: string, name: string): TestDatabase {
  const url = urlOf(server, name)
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
      await withAdministrator(server, (sql) => sql`drop database if exists ${sql(name)} with (force)`)
    },
  }
}

/** Makes the template for the present state of sql/ unless the template exists; returns the name. */
async function prepareTemplate(sql: postgres.Sql, server: string): Promise<string> {
  const template = `business_api_template_${schemaHash()}`
  await sql`select pg_advisory_lock(${TEMPLATE_LOCK_KEY}::bigint)`
  const [existing] = await sql`select 1 from pg_database where datname = ${template}`
  if (existing === undefined) await buildTemplate(sql, server, template)
  await sql`select pg_advisory_unlock(${TEMPLATE_LOCK_KEY}::bigint)`
  return template
}

async function buildTemplate(sql: postgres.Sql, server: string, template: string): Promise<void> {
  // Renamed when done: a run that is ended halfway leaves no half-migrated template under the final name.
  const unfinished = `${template}_unfinished`
  await sql`drop database if exists ${sql(unfinished)} with (force)`
  await sql`create database ${sql(unfinished)}`
  await migrate(urlOf(server, unfinished))
  await sql`alter database ${sql(unfinished)} rename to ${sql(template)}`
  // PostgreSQL copies no database with open connections.
  await sql`alter database ${sql(template)} with allow_connections false`
}

function schemaHash(): string {
  return createHash('sha256').update(JSON.stringify(readMigrationTexts())).digest('hex').slice(0, 16)
}

function urlOf(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}
