// Keeps a copy of all clients of the platform by polling: gets the clients that were created or changed since the last poll, upserts
// each by its id, keeps the Sync-Token with them, waits, and begins again. The program may end at any point, and loses nothing. A
// program with a public address need not poll: see the push twin, examples/sync-clients-by-webhook.ts.
//
//   API_URL=https://app.example API_KEY=bapi_live_… npx tsx examples/sync-clients.ts clients.json

import { realpathSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { ApiError, type Client, createApiClient } from 'business-api-kit/client'

/** The API's address and key. The key goes into a single header and nowhere else. */
export interface Api {
  readonly url: string
  readonly key: string
}

/** The known clients, by id. With a database: a table with `id` as its primary key. */
export interface Copy {
  readonly clients: ReadonlyMap<string, Client>
  /** The token of the last page; null: no page was read. */
  readonly syncToken: string | null
  /**
   * Inserts clients with a new id, updates the rest, and keeps the token of their page: both at once, or the token last. Returns the
   * number of clients that are new or differ.
   */
  upsert(clients: readonly Client[], syncToken: string | null): Promise<number>
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

/** The next poll is the retry of a failed attempt, and goes on after the last page that is in the copy. */
async function syncOnce(api: Api, copy: Copy): Promise<string> {
  const { clients } = createApiClient({ ...api, maxRetries: 0 })
  // Without a token: everything. A token that the API no longer knows gives everything once more.
  const changes = clients.list({ updatedSince: copy.syncToken ?? new Date(0) })
  let listed = 0
  let changed = 0
  for await (const { data, syncToken } of changes.pages()) {
    listed += data.length
    changed += await copy.upsert(data, syncToken)
  }
  return `${changed} of the ${listed} listed clients are new or have changed, ${copy.clients.size} in the copy`
}

/** The file of a copy. */
interface Kept {
  readonly syncToken: string | null
  readonly clients: readonly Client[]
}

/** Opens a copy in one JSON file. */
export async function openCopy(path: string): Promise<Copy> {
  const kept: Kept = JSON.parse(await readText(path, '{"syncToken":null,"clients":[]}'))
  let clients = new Map(kept.clients.map((client) => [client.id, client]))
  let { syncToken } = kept
  return {
    get clients() {
      return clients
    },
    get syncToken() {
      return syncToken
    },
    async upsert(listed, token) {
      const changed = listed.filter((client) => !isDeepStrictEqual(clients.get(client.id), client))
      if (changed.length === 0 && token === syncToken) return 0
      const next = new Map(clients)
      for (const client of changed) next.set(client.id, client)
      // Written to another file first: the copy is whole for every reader, and whenever this process ends.
      const text: Kept = { syncToken: token, clients: [...next.values()] }
      await writeFile(`${path}.new`, JSON.stringify(text, null, 2))
      await rename(`${path}.new`, path)
      // Set after the write, so that clients that could not be written are listed again by the next poll.
      clients = next
      syncToken = token
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
