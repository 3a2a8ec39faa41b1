import type { ApiKeyStore } from '../access/api-keys.ts'
import { storeUnavailable } from '../base/errors.ts'
import { createFairQueue } from '../base/fair-queue.ts'
import { sleep } from '../base/time.ts'

/** The organizations of API keys, as far as they are known: for who goes first, never for who may. */
export interface KeyLookups {
  /** The organization of a key that was in force when it was last looked up; undefined for any other. */
  remembered(digest: string): string | undefined
  /**
   * Looks up the organization of a key.
   *
   * @param peer the callers that count as one
   * @returns null when there is no such key in force
   * @throws `BusinessApiError` with code `store_unavailable` when the store cannot be reached, or too many look-ups wait
   */
  find(digest: string, peer: string): Promise<string | null>
  /** The store has refused the key. */
  forget(digest: string): void
}

/** Keys that are remembered; of one more, the key that was used longest ago is forgotten. Some 200 bytes each. */
const REMEMBERED_MAX = 10_000
/** Digests in one look-up: some milliseconds of the database. */
const BATCH_MAX = 1000
/** After a look-up with invented digests the next one waits for more: a flood that comes in drops costs as few as one at once. */
const GATHER_MS = 5
/** Look-ups that wait: as many as come while the database takes its time. */
const WAITING_MAX = 5000

interface Lookup {
  readonly digest: string
  resolve(organizationId: string | null): void
  reject(error: unknown): void
}

/**
 * Keeps callers with invented keys away from the store's connections. Keys that were found in force are remembered, and
 * their requests go to the store at once, which judges each of them. All other digests wait for a look-up in common: one
 * statement at a time for up to a thousand of them, in round robin of the peers, so that a flood of invented keys costs
 * one connection and few statements, and a new key among them waits for no more than two look-ups. The answer "no such
 * key" is not kept: a key that is made is good for the next request.
 */
export function createKeyLookups(apiKeys: Pick<ApiKeyStore, 'identify'>): KeyLookups {
  /** Organizations by digest, the key used longest ago first. */
  const remembered = new Map<string, string>()
  const waiting = createFairQueue<string, Lookup>()
  let isLookingUp = false

  function remember(digest: string, organizationId: string): void {
    remembered.delete(digest)
    remembered.set(digest, organizationId)
    if (remembered.size <= REMEMBERED_MAX) return
    const [oldest = ''] = remembered.keys()
    remembered.delete(oldest)
  }

  function takeBatch(): Lookup[] {
    const batch: Lookup[] = []
    while (batch.length < BATCH_MAX) {
      const next = waiting.shift()
      if (!next) break
      batch.push(next)
    }
    return batch
  }

  /** @returns whether all were found */
  async function lookUp(batch: readonly Lookup[]): Promise<boolean> {
    try {
      const found = await apiKeys.identify([...new Set(batch.map(({ digest }) => digest))])
      for (const [digest, organizationId] of found) remember(digest, organizationId)
      for (const { digest, resolve } of batch) resolve(found.get(digest) ?? null)
      return batch.every(({ digest }) => found.has(digest))
    } catch (error) {
      for (const { reject } of batch) reject(error)
      return false
    }
  }

  async function lookUpAll(): Promise<void> {
    isLookingUp = true
    while (waiting.size > 0) {
      if (!(await lookUp(takeBatch()))) await sleep(GATHER_MS)
    }
    isLookingUp = false
  }

  function makeRoom(peer: string): void {
    if (waiting.size < WAITING_MAX) return
    const full = storeUnavailable(`Cannot look up an API key as ${WAITING_MAX} look-ups are waiting already`)
    const gives = waiting.shiftLongest(waiting.countOf(peer) + 2)
    if (!gives) throw full
    gives.reject(full)
  }

  return {
    remembered(digest) {
      const organizationId = remembered.get(digest)
      if (organizationId !== undefined) remember(digest, organizationId)
      return organizationId
    },
    async find(digest, peer) {
      makeRoom(peer)
      return new Promise((resolve, reject) => {
        waiting.add(peer, { digest, resolve, reject })
        if (!isLookingUp) void lookUpAll()
      })
    },
    forget(digest) {
      remembered.delete(digest)
    },
  }
}
