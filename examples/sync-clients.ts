// Keeps a copy of the platform's clients by polling: gets the newest clients, upserts each by its id, waits, and begins
// again. A program with a public address need not poll: see the push twin, examples/sync-clients-by-webhook.ts.
//
//   API_URL=https://app.example API_KEY=bapi_live_… npx tsx examples/sync-clients.ts clients.json

import { realpathSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { ApiError, type Client, createApiClient } from 'business-api-kit/client'

/** The longest page. No page follows: a client with 200 newer clients is no longer listed. */
const PAGE_MAX = 200

/** The API's address and key. The key goes into a single header and nowhere else. */
export interface Api {
  readonly url: string
  readonly key: string
}

/** The known clients, by id. With a database: a table with `id` as its primary key. */
export interface Copy {
  readonly clients: ReadonlyMap<string, Client>
  /** Inserts clients with a new id and updates the rest. Returns the number of clients that are new or changed. */
  upsert(clients: readonly Client[]): Promise<number>
}

/**
 * Polls until the signal is aborted. A refused key ends the polling with an `ApiError`, because another poll would not
 * help; after any other failure the next poll comes when due, or later if the API asks for that.
 */
export async function syncClients(
  api: Api,
  copy: Copy,
  options: { intervalMs: number; signal: AbortSignal; wait?: typeof sleep; log?: (line: string) => void },
): Promise<void> {
  const { intervalMs, signal, wait = sleep, log = console.log } = options
  while (!signal.aborted) {
    let waitMs = intervalMs
    try {
      log(await syncOnce(api, copy))
    } catch (error) {
      if (error instanceof ApiError && [401, 403].includes(error.status ?? 0)) throw error
      // At most a day: a timer holds at most 24 days, and fires at once for more.
      if (error instanceof ApiError) waitMs = Math.max(waitMs, error.retryAfterMs ?? 0)
      log(`Not in sync, next try in ${waitMs} ms: ${error}`)
    }
    await wait(waitMs, undefined, { signal }).catch(() => {})
  }
}

async function syncOnce(api: Api, copy: Copy): Promise<string> {
  const page = await listClients(api)
  const isGap = page.length === PAGE_MAX && !page.some(({ id }) => copy.clients.has(id))
  const changed = await copy.upsert(page)
  const gap = isGap ? '; there may be older clients that are no longer listed' : ''
  return `${changed} of the ${page.length} newest clients are new or have changed, ${copy.clients.size} in the copy${gap}`
}

/** A single attempt: the next poll is the retry. */
async function listClients(api: Api): Promise<readonly Client[]> {
  const { clients } = createApiClient({ ...api, maxRetries: 0 })
  for await (const { data } of clients.list({ pageSize: PAGE_MAX }).pages()) return data
  return []
}

/** Opens a copy in one JSON file. */
export async function openCopy(path: string): Promise<Copy> {
  const kept: Client[] = JSON.parse(await readText(path, '[]'))
  let clients = new Map(kept.map((client) => [client.id, client]))
  return {
    get clients() {
      return clients
    },
    async upsert(newest) {
      const changed = newest.filter((client) => !isDeepStrictEqual(clients.get(client.id), client))
      if (changed.length === 0) return 0
      const next = new Map(clients)
      for (const client of changed) next.set(client.id, client)
      // Written to another file first: the copy is whole for every reader, and whenever this process ends.
      await writeFile(`${path}.new`, JSON.stringify([...next.values()], null, 2))
      await rename(`${path}.new`, path)
      // Set after the write, so that clients that could not be written count as changed in the next poll too.
      clients = next
      return changed.length
    },
  }
}

async function readText(path: string, fallback: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return fallback
  })
}

/** An expected failure needs no stack: one line. */
function fail(line: string, exitCode = 2): never {
  console.error(line)
  process.exit(exitCode)
}

async function main(): Promise<void> {
  const { API_URL, API_KEY = '' } = process.env
  const [path, intervalMs = 60_000] = process.argv.slice(2)
  // The key is checked here, because an error about an invalid header would show the key.
  if (!API_URL || !/^[!-~]+$/.test(API_KEY) || !path || !(Number(intervalMs) > 0)) {
    fail('Usage: API_URL=… API_KEY=… npx tsx examples/sync-clients.ts FILE [INTERVAL_MS]')
  }
  const ending = new AbortController()
  process.once('SIGTERM', () => ending.abort())
  const options = { intervalMs: Number(intervalMs), signal: ending.signal }
  try {
    await syncClients({ url: API_URL, key: API_KEY }, await openCopy(path), options)
  } catch (error) {
    if (error instanceof ApiError) fail(error.message, 1)
    throw error
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
