// A host in a separate process, so that an uncaught error shows as the end of the process.
//
//   node --import tsx test/faults/_server.ts '{"databaseUrl":"postgres://…","pool":"own"}'
//
// Prints one line of JSON, `{ "port": … }`, when the host serves. Ends with the standard input.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import postgres, { type Sql } from 'postgres'
import type { BusinessApiOptions } from '../../lib/index.ts'
import { createBusinessApi } from '../../lib/index.ts'
import {
  createPostgresStore,
  createShardedStore,
  type DatabaseOptions,
  type PostgresStore,
  type ShardedStore,
} from '../../lib/postgres.ts'

/** The arguments of a host. */
export interface HostConfig {
  readonly databaseUrl: string
  /** Shards by name, instead of the database. */
  readonly shards?: Readonly<Record<string, string>>
  /**
   * `own`: the store's, from the connection string. `host`: a pool of the host's. `unprepared`: the same for a pooler. Both of
   * the host's with `fetch_types: false`, as README asks: with the default, postgres.js itself ends the process when a connection
   * dies while it reads the types.
   */
  readonly pool: 'own' | 'host' | 'unprepared'
  /** Default any free port. */
  readonly port?: number
  readonly store?: DatabaseOptions
  readonly api?: Pick<BusinessApiOptions, 'deadlineMs' | 'rateLimit'>
}

const config = JSON.parse(process.argv[2] ?? '{}') as HostConfig
const store = openStore(config)
const silent = (): void => {}
const api = createBusinessApi(store, {
  ...config.api,
  // Answers of 503 are expected by the thousand; every logged error is a bug.
  logger: { debug: silent, info: silent, warn: silent, error: (details) => console.error(details) },
})
// Room for a thousand callers that connect at once: the system resets connections beyond the backlog.
const listening = { port: config.port ?? 0, host: '127.0.0.1', backlog: 4096 }
const server = createServer(api).listen(listening, () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }))
})
// Longer than any pause of a caller: a request on a connection that the server closes just then looks lost.
server.keepAliveTimeout = 60_000
process.stdin.resume().on('end', () => process.exit())

function openStore({ shards, ...given }: HostConfig): PostgresStore | ShardedStore {
  if (!shards) return createPostgresStore(openPool(given), given.store)
  const stores = Object.entries(shards).map(([name, url]) => {
    return [name, createPostgresStore(openPool({ ...given, databaseUrl: url }), given.store)] as const
  })
  return createShardedStore({ shards: Object.fromEntries(stores) })
}

function openPool({ databaseUrl, pool }: HostConfig): Sql | string {
  if (pool === 'own') return databaseUrl
  return postgres(databaseUrl, { fetch_types: false, prepare: pool === 'host' })
}
