import type { AdmittedPage } from '../access/admission.ts'
import { type BucketTimes, type RateLimits, takeToken } from '../access/rate-limit.ts'
import { type Judged, limitsOf, type OwnedRequest, UNAUTHENTICATED, verdict } from './verdict.ts'

// A flood of requests over a limit costs the database little: while a request of a key is judged, all further requests of the key
// share a single look at the key and the buckets. The look is sent after all these requests, so that a revocation or a changed limit
// holds for each.

/** The keys with requests over a limit, a moment ago. */
export interface RefusedKeys {
  /** Notes that a request of a key was refused by a limit. */
  note(keyDigest: string): void
  /**
   * Judges a request. While another request of the key is being judged, and shortly after a refusal, a shared look refuses the request
   * unless a token is left.
   *
   * @param take judges a request by taking a token
   */
  judge(
    request: OwnedRequest,
    rateLimits: RateLimits,
    take: () => Promise<AdmittedPage<never>>,
  ): Promise<AdmittedPage<never>>
}

/** Milliseconds for which a key counts as refused. */
const REFUSED_MS = 250

/** A key with the buckets, for the requests that share a look, each after the other. */
interface Look {
  readonly judged: Judged
  /** Relative to the look. */
  times: BucketTimes
}

interface RefusedKey {
  /** On the monotonic clock. */
  refusedAt: number
  /** The number of requests that take tokens, and of looks. */
  underWay: number
  /** The look that has been sent last, and the look that follows. */
  sent: Promise<Look> | null
  next: Promise<Look> | null
}

/**
 * Creates the memory of refused keys.
 *
 * @param readKey reads the key of a request with the present limits and buckets
 */
export function createRefusedKeys(readKey: (request: OwnedRequest) => Promise<Judged>): RefusedKeys {
  const keys = new Map<string, RefusedKey>()

  const isOver = ({ refusedAt }: RefusedKey): boolean => performance.now() - refusedAt >= REFUSED_MS

  function forgetLater(keyDigest: string, key: RefusedKey): void {
    const forget = (): void => {
      if (isOver(key) && key.underWay === 0) keys.delete(keyDigest)
      else forgetLater(keyDigest, key)
    }
    setTimeout(forget, REFUSED_MS).unref()
  }

  async function during<Result>(key: RefusedKey, work: () => Promise<Result>): Promise<Result> {
    key.underWay++
    try {
      return await work()
    } finally {
      key.underWay--
    }
  }

  async function send(key: RefusedKey, request: OwnedRequest): Promise<Look> {
    const judged = await during(key, () => readKey(request))
    const { keyFullIn, organizationFullIn } = judged
    return {
      judged,
      times: { key: 1000 * Number(keyFullIn), organization: 1000 * Number(organizationFullIn) },
    }
  }

  /** The looks of a key are sent each after the other. All requests that came before share a look. */
  function share(key: RefusedKey, request: OwnedRequest): Promise<Look> {
    if (key.next) return key.next
    const sendNext = (): Promise<Look> => {
      key.next = null
      key.sent = send(key, request)
      const end = (): void => {
        if (key.next === null) key.sent = null
      }
      key.sent.then(end, end)
      return key.sent
    }
    if (!key.sent) return sendNext()
    key.next = key.sent.then(sendNext, sendNext)
    return key.next
  }

  /** Returns null if a token is left for the request. */
  async function refuse(
    key: RefusedKey,
    request: OwnedRequest,
    rateLimits: RateLimits,
  ): Promise<AdmittedPage<never> | null> {
    const look = await share(key, request)
    const { judged } = look
    if (judged.keyId === null) return UNAUTHENTICATED
    const own = { key: judged.keyPerSecond !== null, organization: judged.organizationPerSecond !== null }
    const { times, state } = takeToken(look.times, limitsOf(judged, rateLimits), 0, own)
    look.times = times
    return state.retryAfterMs > 0 ? { admission: verdict(judged, request, state), page: null } : null
  }

  return {
    note(keyDigest) {
      const known = keys.get(keyDigest)
      if (known) {
        known.refusedAt = performance.now()
        return
      }
      const key = { refusedAt: performance.now(), underWay: 0, sent: null, next: null }
      keys.set(keyDigest, key)
      forgetLater(keyDigest, key)
    },

    async judge(request, rateLimits, take) {
      const key = keys.get(request.keyDigest)
      if (!key) return take()
      const isAlone = key.underWay === 0 || isOver(key)
      const refused = isAlone ? null : await refuse(key, request, rateLimits)
      return refused ?? during(key, take)
    },
  }
}
