import { storeUnavailable } from '../base/errors.ts'
import { createFairQueue } from '../base/fair-queue.ts'
import { sleep, withDeadline } from '../base/time.ts'
import type { BusinessApiStore } from '../business-store.ts'

/**
 * The callers that are not known to have a valid key: a bounded number of them waits, round robin by peer, so that a flood of invented
 * or missing keys takes little from callers with a known key, and another peer waits for no flood.
 */
export interface UnknownCallers {
  /**
   * Waits for a turn of the event loop in which the request may be looked at; undefined: this one. Node reads the requests of a
   * thousand new connections in one turn: a caller with a known key would wait for all of them.
   */
  enter(peer: () => string): Promise<void> | undefined
  /** Returns the organization of a key that was in force at its last lookup; undefined for any other digest. */
  organizationOf(digest: string): string | undefined
  /**
   * Looks up the organization of a key. A lookup orders requests and admits none: the store judges every request.
   *
   * @param slot the slot that the key carries; null for none
   * @param peer the group of callers that share their turns
   * @returns null when no such key is in force
   * @throws `BusinessApiError` with code `store_unavailable` when the store cannot be reached, or too many lookups wait
   */
  find(digest: string, slot: number | null, peer: string): Promise<string | null>
  /** Forgets a key that the store has rejected. */
  forget(digest: string): void
  /**
   * Waits until a 401 may be sent. A flooding caller sends the next request as soon as the answer has come, and a thousand such callers
   * take nearly all of the process's time, however little each answer costs.
   */
  awaitRefusal(peer: string): Promise<void>
}

type KeyStore = Pick<BusinessApiStore, 'apiKeys'>

/** Keys in memory, some 200 bytes each. A further key displaces the least recently used key. */
const REMEMBERED_MAX = 10_000

/** Creates the places of unknown callers. Shards are looked up apart: a silent shard delays no key of the others. */
export function createUnknownCallers(
  store: KeyStore & Pick<BusinessApiStore, 'findKey'>,
  deadlineMs: number,
): UnknownCallers {
  /** Organizations by digest, in the order of the last use. */
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

/** Requests of unknown callers in one turn of the event loop: less than a millisecond of the process's time. */
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

/** Digests in a lookup at most: a few milliseconds of the database. */
const BATCH_MAX = 1000
/** Pause after a lookup with invented digests: more digests gather meanwhile, so that also a slow flood costs few statements. */
const GATHER_MS = 5
/** Longest wait of the next lookup for this answer: a store that never answers must not hold up all unknown keys for ever. */
const LOOKUP_TIMEOUT_MS = 5000
/** Digests that wait while a lookup is under way. */
const WAITING_MAX = 5000

interface Lookup {
  readonly digest: string
  readonly slot: number | null
  resolve(organizationId: string | null): void
  reject(error: unknown): void
}

/**
 * Looks up one batch of digests at a time. So a flood of invented keys costs one connection and few statements, and a new key among
 * them waits for two lookups at most. The answer "no such key" is not kept, because the key may be made before the next request.
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

  /** @returns whether all keys are in force */
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

// --- Refusals ---

/** 401s without delay, after a time with few. */
const BURST = 100
/** 401s a second in the long run, while few wait. */
const PER_SECOND = 200
/** The answers of one tick, and the requests that follow the answers, take the process less than a millisecond. */
const TICK_MS = 5
/** The planned wait as a share of a request's time. The rest is for the lookup before the wait, and for other peers' turns. */
const WAIT_SHARE = 0.6
/** 401s that wait at most. A further one lets the oldest go out, of the peer with the most. */
const REFUSALS_MAX = 10_000

/** Spaces the 401s out. Their rate grows with the largest number that waited, so that all go out in time, and evenly. */
function createRefusals(deadlineMs: number): UnknownCallers['awaitRefusal'] {
  const waiting = createFairQueue<string, { go(): void }>()
  let credit = BURST
  let creditedAt = performance.now()
  /** The largest number that waited since nothing waited: a rate that fell with the number would leave a long tail. */
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
