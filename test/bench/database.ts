import { readFile } from 'node:fs/promises'
import postgres from 'postgres'
import { startPostgres } from '../../examples/demo/postgres.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { createDeveloperSettings, type DeveloperSettings } from '../../lib/settings.ts'
import { addEndpoint } from './deliveries/parts.ts'

/** The database of a run, on a server that syncs to disk as a production server does. */
export interface BenchDatabase {
  readonly url: string
  readonly sql: postgres.Sql
  /** Process id of the server, the parent of its backends. */
  readonly pid: number
  /** The version of the server and the settings that decide about durability. */
  readonly description: string
  /** Called with each line of the server's log. */
  onLog: (line: string) => void
  stop(): Promise<void>
}

// The settings of a production server; the server of the demo and of the tests does not sync. Checkpoints are kept out of the
// measurements.
const FLAGS = [
  'fsync=on',
  'synchronous_commit=on',
  'full_page_writes=on',
  'shared_buffers=256MB',
  'max_wal_size=8GB',
  'checkpoint_timeout=1h',
]

/** Starts a server with a migrated, empty database. */
export async function startDatabase(): Promise<BenchDatabase> {
  const database = { onLog: (_line: string): void => {} }
  const server = await startPostgres({
    postgresFlags: FLAGS.flatMap((flag) => ['-c', flag]),
    onLog: (line) => database.onLog(line),
  })
  try {
    await migrate(server.url)
    const sql = postgres(server.url, { max: 1, onnotice: () => {} })
    const [row] = await sql`
      select 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync') ||
             ', synchronous_commit ' || current_setting('synchronous_commit') as description`
    return Object.assign(database, {
      url: server.url,
      sql,
      pid: server.pid ?? Number.NaN,
      description: String(row?.description),
      async stop() {
        await sql.end({ timeout: 1 })
        await server.stop()
      },
    })
  } catch (error) {
    await server.stop()
    throw error
  }
}

/** The API keys of the filled database. */
export interface Keys {
  /** Of an organization with 2,000 clients and an endpoint, with limits as hosts have them: 5,000 a second, burst 50,000. */
  readonly one: string
  /** Of 1,000 organizations with 60 clients each, at the default limits. */
  readonly many: readonly string[]
  /** Of an organization at the default limits, for floods. */
  readonly flooding: string
}

const LIMIT = { perSecond: 5000, burst: 50_000 }
const CLIENTS = 2000
const ORGANIZATIONS = 1000
const CLIENTS_OF_EACH = 60

/** Fills the tables of the library, and copies the rows to the tables of the peers. */
export async function fillDatabase({ url, sql }: BenchDatabase): Promise<Keys> {
  // The rows of the filling need no durability; connections that are opened later have the server's setting again.
  await sql`alter database postgres set synchronous_commit = off`
  const store = createPostgresStore(url)
  try {
    const settings = createDeveloperSettings(store)
    const one = await makeKey(settings, 'org_bench', LIMIT)
    await settings.rateLimits.set('org_bench', LIMIT)
    await addEndpoint(store, 'org_bench', 'http://127.0.0.1:9/')
    const ids = createIds()
    const input = {
      name: 'Atlas Ceramics',
      category: 'Manufacturing',
      city: 'Tunis',
      email: 'a@atlas.example',
    }
    for (let made = 0; made < CLIENTS; made += 20) {
      const creations = Array.from({ length: 20 }, () => newClient(input, { ids, now: Date.now() }))
      await Promise.all(
        creations.map(({ record }) =>
          store.clients.create({ organizationId: 'org_bench', record, events: [], idempotency: null }),
        ),
      )
    }
    const many: string[] = []
    while (many.length < ORGANIZATIONS) {
      const names = Array.from({ length: 20 }, (_, index) => `org_${many.length + index}`)
      many.push(...(await Promise.all(names.map((name) => makeKey(settings, name)))))
    }
    await copyClients(sql)
    await sql.unsafe(await readFile(new URL('peer.sql', import.meta.url), 'utf8')).simple()
    await sql`vacuum analyze`
    return { one, many, flooding: await makeKey(settings, 'org_flood') }
  } finally {
    await store.close()
    await sql`alter database postgres reset synchronous_commit`
  }
}

async function makeKey(
  settings: DeveloperSettings,
  organizationId: string,
  rateLimit: typeof LIMIT | null = null,
): Promise<string> {
  const scopes = ['clients:read', 'clients:write'] as const
  return (await settings.apiKeys.create(organizationId, { name: 'bench', scopes, rateLimit })).key
}

/** Copies the newest clients of `org_bench` to each of the other organizations. */
async function copyClients(sql: postgres.Sql): Promise<void> {
  const columns = sql`
    id, name, category, city, email, client_id, client_status, total_revenue, monthly_revenue, converted_at`
  await sql`
    insert into business_api.businesses (organization_id, ${columns})
    select 'org_' || number, ${columns}
    from generate_series(0, ${ORGANIZATIONS - 1}::int) as number, (
      select * from business_api.businesses
      where organization_id = 'org_bench' and client_id is not null
      order by client_id desc limit ${CLIENTS_OF_EACH}
    ) as newest`
}

/** The bytes of the write-ahead log so far. */
export async function readWalBytes(sql: postgres.Sql): Promise<number> {
  const [row] = await sql`select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as bytes`
  return Number(row?.bytes)
}
