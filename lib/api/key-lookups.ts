import type { ApiKeyStore } from '../access/api-keys.ts'
import { storeUnavailable } from '../base/errors.ts'
import { createFairQueue } from '../base/fair-queue.ts'
import { sleep, withDeadline } from '../base/time.ts'

/** The organizations of API keys. Look-ups decide the order in which requests are judged, and admit no request. */
export interface KeyLookups {
  /** Gives the organization of a key that was in force at the last look-up; undefined for any other digest. */
  remembered(digest: string): string | undefined
  /**
   * Looks up the organization of a key.
   *
   * @param peer the group of callers that share their turns
   * @returns null when no such key is in force
   * @throws `BusinessApiError` with code `store_unavailable` when the store cannot be reached, or too many look-ups wait
   */
  find(digest: string, peer: string): Promise<string | null>
  /** Forgets a key that the store has refused. */
  forget(digest: string): void
}

/** Keys in memory, some 200 bytes each. A further key displaces the least recently used key. */
const REMEMBERED_MAX = 10_000
/** Digests in a look-up at most: a few milliseconds of the database. */
const BATCH_MAX = 1000
/** Pause after a look-up with invented digests: more digests gather meanwhile, so that also a slow flood costs few statements. */
const GATHER_MS = 5
/** Longest wait of the next look-up for this answer: a store that never answers must not hold up all unknown keys for ever. */
const LOOKUP_TIMEOUT_MS = 5000
/** Digests that wait while a look-up is under way. */
const WAITING_MAX = 5000

interface Lookup {
  readonly digest: string
  resolve(organizationId: string | null): void
  reject(error: unknown): void
}

/**
 * Keeps callers with invented keys away from the store's connections. A request with a key that was found in force goes to the
 * store at once, and the store judges the request. All other digests wait for a common look-up: one statement at a time, for
 * up to a thousand digests in round robin of the peers. A flood of invented keys costs one connection and few statements,
 * and a new key among them waits for two look-ups at most. The answer "no such key" is not kept, because the key may be made
 * before the next request.
 */
export function createKeyLookups(apiKeys: Pick<ApiKeyStore, 'identify'>): KeyLookups {
  /** Organizations by digest, in the order of the last use. */
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

  /** @returns whether all keys are in force */
  async function lookUp(batch: readonly Lookup[]): Promise<boolean> {
    try {
      const digests = [...new Set(batch.map(({ digest }) => digest))]
      const found = await withDeadline(apiKeys.identify(digests), LOOKUP_TIMEOUT_MS, () => {
        throw storeUnavailable(
          `Cannot look up an API key because the store did not answer within ${LOOKUP_TIMEOUT_MS} ms`,
        )
      })
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
    const full = storeUnavailable(
      `Cannot look up an API key because ${WAITING_MAX} look-ups are waiting already`,
    )
    const gives = waiting.displace(peer)
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
