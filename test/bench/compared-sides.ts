import { execFileSync } from 'node:child_process'
import { readdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import postgres from 'postgres'
import { startChild } from './children.ts'
import type { BenchDatabase } from './database.ts'
import type { Server } from './loading.ts'
import { SECRET_KEYS } from './programs/delivering.ts'

// The two sides of compare.ts. Schemas differ between checkouts, so each database is filled by the public calls of its checkout.

/** A built checkout. */
export interface Checkout {
  readonly name: 'other' | 'this'
  readonly directory: string
  /** The commit, with `-dirty` when files differ. */
  readonly commit: string
}

/** A checkout with a filled database and a running API. */
export interface Side {
  readonly name: Checkout['name']
  /** The address of the built package. */
  readonly dist: string
  /** The connection string of the database. */
  readonly url: string
  readonly server: Server
  readonly keys: ComparedKeys
  /** Publishes events to the receivers in equal parts, and analyzes the tables. */
  publish(count: number): Promise<void>
  close(): Promise<void>
}

/** The API keys of a side. */
export interface ComparedKeys {
  /** Limits as hosts have them: 5,000 a second, burst 50,000. */
  readonly one: string
  /** Two of each of 200 organizations at the default limits: with two keys an organization can use its whole limit. */
  readonly many: readonly string[]
}

const LIMIT = { perSecond: 5000, burst: 50_000 }
const ORGANIZATIONS = 200
const CLIENTS = 60
/** Calls in flight at once. */
const BATCH = 200

/** Reads which commit a checkout is at. @throws when the package is not built, or older than its sources */
export async function readCheckout(name: Checkout['name'], path: string): Promise<Checkout> {
  const directory = resolve(path)
  const built = await stat(join(directory, 'dist', 'postgres.js')).catch(() => null)
  const remedy = `run npm run build in ${directory}`
  if (built === null) throw new Error(`Cannot compare with ${directory}: dist/ is missing; ${remedy}`)
  for (const folder of ['lib', 'sql']) {
    for (const file of await readdir(join(directory, folder), { recursive: true })) {
      const { mtimeMs } = await stat(join(directory, folder, file))
      if (/\.(ts|sql)$/.test(file) && mtimeMs > built.mtimeMs)
        throw new Error(`Cannot compare with ${directory}: ${folder}/${file} is newer than dist/; ${remedy}`)
    }
  }
  const git = ['-C', directory, 'describe', '--always', '--dirty', '--exclude=*']
  return { name, directory, commit: execFileSync('git', git, { encoding: 'utf8' }).trim() }
}

/** Makes and fills the database of a checkout, and starts the API. @param ports of the receivers of events */
export async function prepareSide(
  { sql: admin, url: adminUrl }: BenchDatabase,
  { name, directory }: Checkout,
  ports: readonly number[],
): Promise<Side> {
  const dist = pathToFileURL(join(directory, 'dist')).href
  const { migrate, createPostgresStore }: typeof import('../../lib/postgres.ts') = await import(
    `${dist}/postgres.js`
  )
  const { createPlatform }: typeof import('../../lib/platform.ts') = await import(`${dist}/platform.js`)
  const databaseName = `compared_${name}`
  const url = Object.assign(new URL(adminUrl), { pathname: databaseName }).href
  await admin`create database ${admin(databaseName)}`
  await migrate(url, { logger: false })
  // What is filled and published needs no durability; connections that are opened later have the server's setting again.
  await admin`alter database ${admin(databaseName)} set synchronous_commit = off`
  const [store, sql] = [createPostgresStore(url), postgres(url, { max: 1, onnotice: () => {} })]
  const platform = createPlatform(store)
  const keys = await fill(dist, store, platform, ports)
  await sql`vacuum analyze`
  await admin`alter database ${admin(databaseName)} reset synchronous_commit`
  const { first, pid } = await startChild('ours', [url, dist])
  return {
    name,
    dist,
    url,
    keys,
    server: { subject: name, port: Number(first.port), pid },
    async publish(count) {
      const data = { projectId: 'proj_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC', name: 'Showroom relaunch' }
      await inBatches(count, (index) =>
        platform.publish(`org_receiver_${index % ports.length}`, 'project.completed', data),
      )
      await sql`vacuum analyze`
    },
    async close() {
      await store.close()
      await sql.end({ timeout: 1 })
    },
  }
}

async function fill(
  dist: string,
  store: ReturnType<typeof import('../../lib/postgres.ts').createPostgresStore>,
  platform: ReturnType<typeof import('../../lib/platform.ts').createPlatform>,
  ports: readonly number[],
): Promise<ComparedKeys> {
  const { createDeveloperSettings }: typeof import('../../lib/settings.ts') = await import(
    `${dist}/settings.js`
  )
  const settings = createDeveloperSettings(store, {
    allowHttp: true,
    allowPrivateNetworks: true,
    secretKeys: SECRET_KEYS,
  })
  const makeKey = async (organizationId: string, rateLimit: typeof LIMIT | null): Promise<string> => {
    const scopes = ['clients:read', 'clients:write'] as const
    return (await settings.apiKeys.create(organizationId, { name: 'bench', scopes, rateLimit })).key
  }
  const names = Array.from({ length: ORGANIZATIONS }, (_, index) => `org_${index}`)
  const all = ['org_one', ...names]
  await inBatches(all.length * CLIENTS, (index) =>
    platform.clients.create(all[index % all.length] ?? '', { name: 'Atlas Ceramics', city: 'Tunis' }),
  )
  await settings.rateLimits.set('org_one', LIMIT)
  // Registered after the filling, whose events go to no endpoint.
  await settings.endpoints.register('org_one', { url: 'http://127.0.0.1:65535/' })
  for (const [index, port] of ports.entries())
    await settings.endpoints.register(`org_receiver_${index}`, { url: `http://127.0.0.1:${port}/hook` })
  const many: string[] = []
  await inBatches(2 * ORGANIZATIONS, async (index) => {
    many.push(await makeKey(names[index % ORGANIZATIONS] ?? '', null))
  })
  return {
    one: await makeKey('org_one', LIMIT),
    many,
  }
}

async function inBatches(count: number, call: (index: number) => Promise<unknown>): Promise<void> {
  for (let made = 0; made < count; made += BATCH) {
    await Promise.all(Array.from({ length: Math.min(BATCH, count - made) }, (_, index) => call(made + index)))
  }
}
