import { storeUnavailable } from '../base/errors.ts'
import { createFairQueue } from '../base/fair-queue.ts'
import { sleep, withDeadline } from '../base/time.ts'
import type { BusinessApiStore } from '../business-store.ts'

/**
 * Handles callers not yet known to have a valid key. Only so many can wait at once, and peers take turns, so a flood of
 * invalid requests barely affects other peers or callers with a known key.
 */
export interface UnknownCallers {
  /**
   * Waits for an event loop turn that can handle the request, or returns `undefined` if the current turn can. Node.js
   * reads the requests from a thousand new connections in a single turn, which would hold up callers with a known key.
   */
  enter(peer: () => string): Promise<void> | undefined
  /** Returns the organization if the key was active at its last lookup, otherwise `undefined`. */
  organizationOf(digest: string): string | undefined
  /**
   * Looks up a key's organization. We only use this to schedule requests. The store still has to admit each request.
   *
   * @param slot the slot found in the key, or `null` if the key has none
   * @param peer the group that the caller shares turns with
   * @returns `null` if there's no such active key
   * @throws `BusinessApiError` with code `store_unavailable` if the store is unreachable or there's a lookup backlog
   */
  find(digest: string, slot: number | null, peer: string): Promise<string | null>
  /** Forgets a key that the store has rejected. */
  forget(digest: string): void
  /**
   * Waits until we can send a 401. A flooding caller sends the next request right after getting a response, and a
   * thousand of them would take up nearly all of the process's time, no matter how cheap each response is.
   */
  awaitRefusal(peer: string): Promise<void>
}

type KeyStore = Pick<BusinessApiStore, 'apiKeys'>

/** Maximum number of keys in memory, about 200 bytes each. The least recently used key is evicted. */
const REMEMBERED_MAX = 10_000

/** Creates the state for unknown callers. Each shard has its own lookups, so a slow shard doesn't delay the rest. */
export function createUnknownCallers(
  store: KeyStore & Pick<BusinessApiStore, 'findKey'>,
  deadlineMs: number,
): UnknownCallers {
  /** Organizations by key digest, least recently used first. */
  const remembered = new Map<string, string>()
  const lookups = new Map<KeyStore, UnknownCallers['find']>()

  function lookupsOf(part: KeyStore): UnknownCallers['find'] {
    const find = lookups.get(part) ?? createLookups(part.apiKeys)
    lookups.set(part, find)
    return find
  }

  function remember(digest: string, organizationId: string): void {
    remembered.delete(digest)
    remembered.set(digest, organizationId)
    if (remembered.size <= REMEMBERED_MAX) return
    const [oldest = ''] = remembered.keys()
    remembered.delete(oldest)
  }

  return {
    enter: createEntry(),
    organizationOf(digest) {
      const organizationId = remembered.get(digest)
      if (organizationId !== undefined) remember(digest, organizationId)
      return organizationId
    },
    async find(digest, slot, peer) {
      const lookUp = (part: KeyStore) => lookupsOf(part)(digest, slot, peer)
      const organizationId = await (store.findKey?.(slot, lookUp) ?? lookUp(store))
      if (organizationId !== null) remember(digest, organizationId)
      return organizationId
    },
    forget: (digest) => void remembered.delete(digest),
    awaitRefusal: createRefusals(deadlineMs),
  }
}

// --- Turns ---

/** Number of requests from unknown callers per event loop turn. They take less than a millisecond. */
const PER_TURN = 8

function createEntry(): UnknownCallers['enter'] {
  const waiting = createFairQueue<string, { enter(): void }>()
  let places = PER_TURN
  let isTurning = false

  function turn(): void {
    isTurning = false
    for (places = PER_TURN; places > 0 && waiting.size > 0; places--) waiting.shift()?.enter()
    if (waiting.size > 0) awaitTurn()
  }

  function awaitTurn(): void {
    if (isTurning) return
    isTurning = true
    setImmediate(turn)
  }

  return (peer) => {
    awaitTurn()
    if (places > 0) {
      places--
      return undefined
    }
    return new Promise((enter) => {
      waiting.add(peer(), { enter })
    })
  }
}

// --- Lookups ---

/** Maximum number of digests per lookup. That many take the database a few milliseconds. */
const BATCH_MAX = 1000
/** Pause after a lookup with made-up digests, in ms. Lets more of them pile up, so a slow flood causes few queries. */
const GATHER_MS = 5
/** How long to wait for a lookup before starting the next one, in ms. A store might never respond. */
const LOOKUP_TIMEOUT_MS = 5000
/** Maximum number of digests that can wait during a lookup. */
const WAITING_MAX = 5000

interface Lookup {
  readonly digest: string
  readonly slot: number | null
  resolve(organizationId: string | null): void
  reject(error: unknown): void
}

/**
 * Looks up one batch of digests at a time, so a flood of made-up keys costs only one connection and a handful of
 * queries, and a new key waits for at most two lookups. We don't cache unknown keys, since they could be created later.
 */
function createLookups(apiKeys: BusinessApiStore['apiKeys']): UnknownCallers['find'] {
  const waiting = createFairQueue<string, Lookup>()
  let isLookingUp = false

  function takeBatch(): Lookup[] {
    const batch: Lookup[] = []
    for (let next = waiting.shift(); next; next = batch.length < BATCH_MAX ? waiting.shift() : undefined)
      batch.push(next)
    return batch
  }

  /** Returns `true` if every key is active. */
  async function lookUp(batch: readonly Lookup[]): Promise<boolean> {
    try {
      const digests = [...new Set(batch.map(({ digest }) => digest))]
      const slots = new Set(batch.flatMap(({ slot }) => slot ?? []))
      const found = await withDeadline(apiKeys.identify(digests, [...slots]), LOOKUP_TIMEOUT_MS, () => {
        throw storeUnavailable(
          `Cannot look up an API key because the store did not answer within ${LOOKUP_TIMEOUT_MS} ms`,
        )
      })
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
      `Cannot look up an API key because ${WAITING_MAX} lookups are waiting already`,
    )
    const gives = waiting.displace(peer)
    if (!gives) throw full
    gives.reject(full)
  }

  return async (digest, slot, peer) => {
    makeRoom(peer)
    return new Promise((resolve, reject) => {
      waiting.add(peer, { digest, slot, resolve, reject })
      if (!isLookingUp) void lookUpAll()
    })
  }
}

// --- Rejections ---

/** Number of 401s we can send without a delay when there haven't been many recently. */
const BURST = 100
/** Number of 401s per second in the long run, unless a lot of them are waiting. */
const PER_SECOND = 200
/** Interval in ms. The responses in one tick, including follow-up requests, take less than a millisecond. */
const TICK_MS = 5
/** Fraction of the request's time limit we plan to wait. The rest is for the lookup and other peers' turns. */
const WAIT_SHARE = 0.6
/** Maximum number of waiting 401s. Beyond that, we send the oldest one from the peer with the most. */
const REFUSALS_MAX = 10_000

/** Delays 401s. The rate depends on the peak backlog, so all of them are sent in time. */
function createRefusals(deadlineMs: number): UnknownCallers['awaitRefusal'] {
  const waiting = createFairQueue<string, { go(): void }>()
  let credit = BURST
  let creditedAt = performance.now()
  /** Peak backlog since the queue was last empty. Using the current backlog would slow down the last responses. */
  let mostWaiting = 0

  function addCredit(): void {
    const now = performance.now()
    const perMs = Math.max(PER_SECOND / 1000, mostWaiting / (deadlineMs * WAIT_SHARE))
    credit = Math.min(BURST, credit + (now - creditedAt) * perMs)
    creditedAt = now
  }

  function tick(): void {
    addCredit()
    for (; credit >= 1 && waiting.size > 0; credit--) waiting.shift()?.go()
    if (waiting.size > 0) setTimeout(tick, TICK_MS)
    else mostWaiting = 0
  }

  return async (peer) => {
    if (waiting.size === 0) {
      addCredit()
      if (credit >= 1) {
        credit--
        return
      }
      setTimeout(tick, TICK_MS)
    }
    if (waiting.size >= REFUSALS_MAX) waiting.shiftLongest()?.go()
    await new Promise<void>((go) => {
      waiting.add(peer, { go })
      mostWaiting = Math.max(mostWaiting, waiting.size)
    })
  }
}
