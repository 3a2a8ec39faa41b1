// Keeps a copy of the platform's clients by polling. It gets the clients that were created or changed since the
// last poll, upserts each of them by id, stores the Sync-Token along with them, and waits for the next poll. The
// program can be stopped at any time without losing anything. If it has a public address, you can use webhooks
// instead, see examples/sync-clients-by-webhook.ts.
//
//   API_URL=https://app.example API_KEY=bapi_live_… npx tsx examples/sync-clients.ts clients.json

import { realpathSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { ApiError, type Client, createApiClient } from 'business-api-kit/client'

/** The address and key of the API. The key is only sent in a single header. */
export interface Api {
  readonly url: string
  readonly key: string
}

/** The known clients by id. If you have a database, use a table with `id` as its primary key. */
export interface Copy {
  readonly clients: ReadonlyMap<string, Client>
  /** The token of the last page, or `null` if no page has been read. */
  readonly syncToken: string | null
  /**
   * Inserts new clients, updates existing ones, and stores the token of their page at the same time or after them.
   * Returns the number of clients that were new or changed.
   */
  upsert(clients: readonly Client[], syncToken: string | null): Promise<number>
}

/**
 * Polls until the signal is aborted. If the key is rejected, this throws an `ApiError`, because polling again wouldn't
 * help. After any other failure, polling continues as scheduled, or later if the API asks for it.
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
      // Limit this to a day. Timers support at most 24 days and fire immediately for anything longer.
      if (error instanceof ApiError) waitMs = Math.max(waitMs, error.retryAfterMs ?? 0)
      log(`Not in sync, next try in ${waitMs} ms: ${error}`)
    }
    await wait(waitMs, undefined, { signal }).catch(() => {})
  }
}

/** Doesn't retry, since the next poll does that. It continues after the last page in the copy. */
async function syncOnce(api: Api, copy: Copy): Promise<string> {
  const { clients } = createApiClient({ ...api, maxRetries: 0 })
  // Without a token, or if the API no longer knows it, everything is returned.
  const changes = clients.list({ updatedSince: copy.syncToken ?? new Date(0) })
  let listed = 0
  let changed = 0
  for await (const { data, syncToken } of changes.pages()) {
    listed += data.length
    changed += await copy.upsert(data, syncToken)
  }
  return `${changed} of the ${listed} listed clients are new or have changed, ${copy.clients.size} in the copy`
}

/** The content of the file. */
interface Kept {
  readonly syncToken: string | null
  readonly clients: readonly Client[]
}

/** Opens a copy in a JSON file. */
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
      // Write to another file first, so that readers always see a complete copy, no matter when this process ends.
      const text: Kept = { syncToken: token, clients: [...next.values()] }
      await writeFile(`${path}.new`, JSON.stringify(text, null, 2))
      await rename(`${path}.new`, path)
      // Set this after writing. If clients couldn't be written, the next poll lists them again.
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

/** Expected failures don't need a stack trace. */
function fail(line: string, exitCode = 2): never {
  console.error(line)
  process.exit(exitCode)
}

async function main(): Promise<void> {
  const { API_URL, API_KEY = '' } = process.env
  const [path, intervalMs = 60_000] = process.argv.slice(2)
  // Check the key here, because an error about an invalid header would include the key.
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
