// Runs the whole API on a real PostgreSQL with a year of realistic data: npm run demo

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type BusinessApiStore, createBusinessApi, defineService, type Service } from 'business-api-kit'
import { createPostgresStore, createShardedStore, migrate } from 'business-api-kit/postgres'
import { HELP, readCommandLine, type Wishes } from './command-line.ts'
import { deliver, readSecretKeys, subscribe } from './deliver.ts'
import { createEnding } from './ending.ts'
import { createDemoKeys } from './keys.ts'
import { PROFILES, type Profile } from './organizations.ts'
import { endWithNpm } from './parent.ts'
import { deliverPastDay } from './past-day.ts'
import { startPostgres } from './postgres.ts'
import { keepBusinessGoing } from './present.ts'
import { type DemoOrganization, describeReady, type Ready } from './print.ts'
import { createProgress } from './progress.ts'
import { serveSettings } from './settings.ts'
import { describeEvent, startSubscriber } from './subscriber.ts'
import { planYear, type Work } from './year.ts'

/** A failure outside the demo, for which the message is all the user needs. */
class Mishap extends Error {}

const ending = createEnding()
const progress = createProgress(process.stderr)

try {
  await run(readWishes(process.argv.slice(2)))
} catch (error) {
  // A failure while ending is just a consequence of that.
  if (!ending.hasBegun) {
    progress.clear()
    console.error(error instanceof Mishap ? error.message : error)
    await ending.exit(1)
  }
}

function readWishes(args: readonly string[]): Wishes {
  try {
    return readCommandLine(args)
  } catch (error) {
    console.error(`${messageOf(error)}\nWhat there is: npm run demo -- --help`)
    process.exit(2)
  }
}

async function run({ port, shards, json, help }: Wishes): Promise<void> {
  if (help) {
    process.stdout.write(HELP)
    return
  }
  endWithNpm(ending)
  ending.add(progress.clear)
  const server = await openServer(port)
  if (shards > 1 && process.env.DATABASE_URL)
    throw new Mishap('Leave out DATABASE_URL with --shards: the demo starts a PostgreSQL for each shard')
  const urls = shards > 1 ? await openShards(shards) : [process.env.DATABASE_URL || (await openDatabase())]
  const [databaseUrl = ''] = urls
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { store, loopStores } = await openStore(urls, defineService({ baseUrl }))
  const filled = await fill(store)
  const secretKeys = readSecretKeys()
  await openSubscriber(store, filled, secretKeys, json)
  const [past, ...others] = filled.map(({ work }) => work)
  if (past) await deliverPastDay(store, loopStores, urls, [past, ...others])
  deliver(loopStores, secretKeys, ending)
  keepBusinessGoing(
    store,
    filled.map(({ work }) => work),
    ending,
  )

  const api = createBusinessApi(store, { requestLog: 'all' })
  const [first] = filled
  if (!first) throw new Mishap('There is no organization to show')
  const settings = serveSettings(store, api, first.organization, secretKeys, ending)
  server.removeAllListeners('request').on('request', (request, response) => {
    void settings(request, response, () => void api(request, response))
  })
  // Added last so that it runs first. We stop accepting requests before stopping the loop, the sender and the store.
  ending.add(() => closeServer(server))
  const ready: Ready = {
    baseUrl,
    databaseUrl,
    pid: process.pid,
    organizations: filled.map(({ organization }) => organization),
    env: {
      BUSINESS_API_SECRET_KEYS: secretKeys.join(','),
      ...(shards > 1 && { DATABASE_URLS: urls.map((url, index) => `${nameOf(index)}=${url}`).join(',') }),
    },
  }
  progress.clear()
  process.stdout.write(json ? `${JSON.stringify(ready)}\n` : describe(ready, filled))
}

// --- Steps, each with its own cleanup ---

/** Opens the port before anything else. If it's taken, we haven't wasted any time. */
async function openServer(port: number): Promise<Server> {
  const server = createServer((_, response) => response.writeHead(503, { 'Retry-After': '1' }).end())
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  } catch (error) {
    throw new Mishap(describePortError(error, port))
  }
  return server
}

async function closeServer(server: Server): Promise<void> {
  const closed = once(server.close(), 'close')
  setTimeout(() => server.closeAllConnections(), 1000).unref()
  await closed
}

function describePortError(error: unknown, port: number): string {
  if (codeOf(error) === 'EADDRINUSE') {
    return `Port ${port} is taken by another program: choose another one with --port N, or leave it out for a free one`
  }
  return `Cannot serve on port ${port}: ${messageOf(error)}`
}

async function openDatabase(): Promise<string> {
  progress.step('Starting PostgreSQL')
  const starting = startPostgres()
  ending.add(async () => {
    const postgres = await starting.catch(() => undefined)
    await postgres?.stop()
  })
  try {
    return (await starting).url
  } catch (error) {
    throw new Mishap(messageOf(error))
  }
}

async function openShards(count: number): Promise<string[]> {
  const urls: string[] = []
  while (urls.length < count) urls.push(await openDatabase())
  return urls
}

/** Returns the name of a shard: a, b, c and so on. */
function nameOf(index: number): string {
  return String.fromCharCode('a'.charCodeAt(0) + index)
}

/** Opens the store, which covers all shards if there are several databases, and the stores for the delivery loops. */
async function openStore(
  urls: readonly string[],
  service: Service,
): Promise<{ store: BusinessApiStore; loopStores: readonly BusinessApiStore[] }> {
  progress.step('Preparing the database')
  try {
    await Promise.all(urls.map((url) => migrate(url)))
  } catch (error) {
    throw new Mishap(messageOf(error))
  }
  const stores = urls.map((url) => createPostgresStore(url, { service }))
  const [only, ...others] = stores
  if (only && others.length === 0) {
    ending.add(() => only.close())
    return { store: only, loopStores: [only] }
  }
  const named = stores.map((store, index) => [nameOf(index), store])
  const store = createShardedStore({ shards: Object.fromEntries(named) })
  ending.add(() => store.close())
  return { store, loopStores: store.shards.map((shard) => shard.store) }
}

/** Starts the subscriber, which receives the webhooks of all organizations and prints each event. */
async function openSubscriber(
  store: BusinessApiStore,
  filled: readonly Filled[],
  secretKeys: readonly string[],
  json: boolean,
): Promise<void> {
  const subscriber = await startSubscriber((event) => {
    // With --json, nothing but a single line is printed to stdout.
    if (!json) console.log(describeEvent(event))
  })
  ending.add(() => subscriber.close())
  for (const [index, { organization }] of filled.entries())
    await subscribe(store, organization.id, subscriber, secretKeys, index === 0)
}

// --- Data ---

/** An organization of the demo and its data. */
interface Filled {
  readonly organization: DemoOrganization
  readonly work: Work
}

/** Creates data for new organizations, all at the same time. Organizations from an earlier run keep theirs. */
async function fill(store: BusinessApiStore): Promise<Filled[]> {
  const now = Date.now()
  const planned = PROFILES.map((profile) => {
    const id = organizationId(profile)
    return { id, name: profile.name, year: planYear(store, id, profile, now) }
  })
  const days = planned.reduce((sum, { year }) => sum + year.days, 0)
  let lived = 0
  progress.step(`Living a year of business, ${days} days`)
  return Promise.all(
    planned.map(async ({ id, name, year }) => {
      const work = await year.live(() => progress.count(++lived, days))
      const keys = await createDemoKeys(store, id)
      return { organization: { id, name, keys }, work }
    }),
  )
}

/** Returns an id that is different in every run and easy to recognize in a list. */
function organizationId({ name }: Profile): string {
  const word = name.split(' ')[0] ?? name
  return `org_${word.toLowerCase()}_${randomBytes(4).toString('hex')}`
}

function describe(ready: Ready, [first, second]: Filled[]): string {
  const samples = { businessId: newestBusinessId(first), foreignBusinessId: newestBusinessId(second) }
  return describeReady(ready, samples, Boolean(process.env.DATABASE_URL))
}

function newestBusinessId(filled: Filled | undefined): string {
  return filled?.work.customers.at(-1)?.client.business.id ?? ''
}

// --- Errors ---

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/** Some network errors only have a code. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || String(codeOf(error)) : String(error)
}
