import type { RateLimits } from '../access/rate-limit.ts'
import type { OwnLimits } from './statements/admission.ts'

/** Tokens that a process has taken from the shared buckets of a key, for requests to come. */
export interface Allotment {
  readonly keyDigest: string
  readonly organizationId: string
  readonly keyId: string
  /** The limits under which the tokens were taken. A changed limit voids the tokens. */
  readonly limits: RateLimits
  /** The limits as the database has them. */
  readonly own: OwnLimits
  /** On the monotonic clock. */
  readonly takenAt: number
  /** The moment by the database's clock, in seconds since 1970, from which on the tokens cannot be given back. */
  readonly voidAt: number
  /** Tokens that were taken for requests to come. */
  readonly size: number
  /** Tokens that are left. */
  left: number
}

/** The allotments of a process, one for each busy key. */
export interface Allotments {
  /** Returns whether a token is at hand. */
  has(keyDigest: string): boolean
  /** Spends a token. Null when none is at hand. */
  spend(keyDigest: string): Allotment | null
  /**
   * The number of tokens to take now. A number above 1 is for one caller at a time, who then calls {@link Allotments.keep}.
   */
  wanted(keyDigest: string): number
  /**
   * Returns whether the caller is to take tokens although some are left: a quarter of the tokens, or of their time. Without this
   * one request every request under way would take a token of its own, and all would wait for the same two buckets.
   */
  isTakenEarly(keyDigest: string): boolean
  /** Waits for the tokens that another caller is taking, and spends one. Null when none is at hand. */
  spendLate(keyDigest: string): Promise<Allotment | null>
  /** Keeps what was taken for requests to come; null: nothing. */
  keep(keyDigest: string, allotment: Allotment | null): void
  /** Gives back a spent token and those that are left with it. */
  giveBack(spent: Allotment): void
  /** Forgets the tokens that are left with a spent one: a changed limit has voided them. */
  drop(spent: Allotment): void
  /**
   * Waits for the tokens of an organization that are being given back, and returns whether any came back since a moment on the
   * monotonic clock. With `isShort` the tokens that are held for all its keys are given back first.
   */
  recall(organizationId: string, since: number, isShort: boolean): Promise<boolean>
  /** Gives all tokens back and holds no more. */
  close(): void
}

/** Milliseconds for which tokens are held. */
export const HOLD_MS = 250

/** Requests of a key within {@link HOLD_MS} from which on tokens are held: for fewer, giving back costs more than is saved. */
const BUSY_FROM = 8
/** The number of keys from which the idle ones are forgotten. */
const KEYS_MAX = 10_000

/** Returns whether a quarter of an allotment's tokens or of its time is left. */
function isShort({ size, left, takenAt }: Allotment): boolean {
  return left <= size / 4 || performance.now() - takenAt >= (3 / 4) * HOLD_MS
}

/** The requests of a key in this process. */
interface Usage {
  /** The beginning of the present period of {@link HOLD_MS}. */
  since: number
  requests: number
  requestsBefore: number
  /** Ends the present taking of tokens. */
  endTaking: (() => void) | null
  taking: Promise<void> | null
  allotment: Allotment | null
}

/** Tokens of an organization that this process holds, or gives back. */
interface Outside {
  readonly held: Set<Allotment>
  readonly returning: Set<Promise<void>>
  /** The latest end of a giving back, on the monotonic clock. */
  returnedAt: number
}

/** The requests of a key in the last {@link HOLD_MS}, or fewer. */
function recentOf({ requests, requestsBefore }: Usage): number {
  return Math.max(requests, requestsBefore)
}

/**
 * Creates the allotments of a process. For a key that is used steadily, as many tokens are taken at once as the key had
 * requests in the quarter of a second before; the tokens that are left after another quarter are given back.
 *
 * @param giveBack gives tokens back to the shared buckets. Never rejects
 */
export function createAllotments(
  giveBack: (allotment: Allotment, tokens: number) => Promise<void>,
): Allotments {
  const usages = new Map<string, Usage>()
  const organizations = new Map<string, Outside>()
  let sweepAt = KEYS_MAX
  let isClosed = false

  function usageOf(keyDigest: string, now: number): Usage {
    const known = usages.get(keyDigest)
    if (known) return known
    if (usages.size >= sweepAt) forgetIdle(now)
    const usage = {
      since: now,
      requests: 0,
      requestsBefore: 0,
      endTaking: null,
      taking: null,
      allotment: null,
    }
    usages.set(keyDigest, usage)
    return usage
  }

  function forgetIdle(now: number): void {
    for (const [keyDigest, { since, allotment, taking }] of usages) {
      if (now - since > HOLD_MS && allotment === null && taking === null) usages.delete(keyDigest)
    }
    for (const [organizationId, { held, returning, returnedAt }] of organizations) {
      if (now - returnedAt > HOLD_MS && held.size + returning.size === 0) organizations.delete(organizationId)
    }
    sweepAt = Math.max(KEYS_MAX, usages.size * 2)
  }

  function count(usage: Usage, now: number): void {
    const periods = (now - usage.since) / HOLD_MS
    if (periods >= 1) {
      usage.requestsBefore = periods < 2 ? usage.requests : 0
      usage.requests = 0
      usage.since = now
    }
    usage.requests++
  }

  function outsideOf(organizationId: string): Outside {
    const known = organizations.get(organizationId)
    if (known) return known
    const outside = { held: new Set<Allotment>(), returning: new Set<Promise<void>>(), returnedAt: 0 }
    organizations.set(organizationId, outside)
    return outside
  }

  /** Takes what is left of an allotment from the requests to come. */
  function empty(allotment: Allotment): number {
    const { keyDigest, organizationId, left } = allotment
    const usage = usages.get(keyDigest)
    if (usage?.allotment === allotment) usage.allotment = null
    organizations.get(organizationId)?.held.delete(allotment)
    allotment.left = 0
    return left
  }

  function putBack(allotment: Allotment, tokens: number): void {
    const outside = outsideOf(allotment.organizationId)
    const returned = giveBack(allotment, tokens).then(() => {
      outside.returning.delete(returned)
      outside.returnedAt = performance.now()
    })
    outside.returning.add(returned)
  }

  function release(allotment: Allotment): void {
    const left = empty(allotment)
    if (left > 0) putBack(allotment, left)
  }

  function spend(keyDigest: string): Allotment | null {
    const usage = usages.get(keyDigest)
    if (!usage?.allotment) return null
    const { allotment } = usage
    const now = performance.now()
    // The timer may be late, and the process may have been stopped.
    if (now - allotment.takenAt >= HOLD_MS) {
      release(allotment)
      return null
    }
    count(usage, now)
    allotment.left--
    if (allotment.left === 0) empty(allotment)
    return allotment
  }

  return {
    has: (keyDigest) => (usages.get(keyDigest)?.allotment ?? null) !== null,
    spend,
    isTakenEarly(keyDigest) {
      const usage = usages.get(keyDigest)
      if (!usage?.allotment || usage.taking || isClosed) return false
      return isShort(usage.allotment) && recentOf(usage) >= BUSY_FROM
    },
    async spendLate(keyDigest) {
      await usages.get(keyDigest)?.taking
      return spend(keyDigest)
    },
    wanted(keyDigest) {
      const now = performance.now()
      const usage = usageOf(keyDigest, now)
      count(usage, now)
      const recent = recentOf(usage)
      const isProvided = usage.allotment !== null && !isShort(usage.allotment)
      if (isClosed || usage.taking || isProvided || recent < BUSY_FROM) return 1
      usage.taking = new Promise((resolve) => {
        usage.endTaking = resolve
      })
      return recent
    },
    keep(keyDigest, allotment) {
      const usage = usages.get(keyDigest)
      if (!usage) return
      usage.endTaking?.()
      usage.taking = null
      if (allotment === null) return
      if (usage.allotment) release(usage.allotment)
      usage.allotment = allotment
      outsideOf(allotment.organizationId).held.add(allotment)
      const leftMs = isClosed ? 0 : HOLD_MS - (performance.now() - allotment.takenAt)
      if (leftMs > 0) setTimeout(release, leftMs, allotment).unref()
      else release(allotment)
    },
    giveBack(spent) {
      putBack(spent, empty(spent) + 1)
    },
    drop: empty,
    async recall(organizationId, since, isShort) {
      const outside = organizations.get(organizationId)
      if (!outside) return false
      if (isShort) for (const allotment of outside.held) release(allotment)
      await Promise.all(outside.returning)
      return outside.returnedAt >= since
    },
    close() {
      isClosed = true
      for (const { held } of organizations.values()) for (const allotment of held) release(allotment)
    },
  }
}
