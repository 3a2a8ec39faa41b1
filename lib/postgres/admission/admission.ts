import type { Admission, AdmissionRequest, AdmittedPage, PageRequest } from '../../access/admission.ts'
import type { RateLimits } from '../../access/rate-limit.ts'
import { type Beginning, EVERYTHING, readBeginning } from '../position.ts'
import type { PageColumn } from '../statements/changes.ts'
import type { ListStatements } from '../statements/list.ts'
import type { ResultColumns } from '../statements/statement.ts'
import type { Asking } from './batches.ts'
import { JUDGE, type JudgementValues } from './judgement.ts'
import { type Judged, verdictOn } from './verdict.ts'

/** Admits or rejects API requests. */
export interface Admissions {
  admit(request: AdmissionRequest): Promise<Admission>
  /** Checks a request and reads the page if the request is admitted. */
  admitToPage<Representation>(
    request: AdmissionRequest,
    list: ListStatements,
    asked: PageRequest,
  ): Promise<AdmittedPage<Representation>>
  readonly limits: Asking['limits']
}

/** Requests with the same key, batched into a single check. */
interface Waiting {
  count: number
  /** Monotonic timestamp, in milliseconds. */
  readonly askedAt: number
  readonly judged: Promise<Judged>
}

type Page = ResultColumns<PageColumn, 'page'>

/** Maximum number of recently rejected keys to remember, at about 100 bytes each. */
const REJECTED_MAX = 10_000

/**
 * Creates request admission for a store. The check and the page read are separate statements, so buckets aren't locked
 * while records are read or a slow response is sent. Waiting requests with the same key are checked together and take
 * their tokens under a single lock.
 *
 * When the queue is short, both statements are sent at once and the page is held back until the check is done, so a
 * list takes a single round trip. Once a key has been rejected, its next list waits for the check, so requests over the
 * limit don't cost a page read.
 */
export function createAdmissions({ ask, limits, hasRoom, timeoutMs }: Asking): Admissions {
  /** Keyed by rate limits (several APIs can share a store), then by key digest. */
  const waiting = new WeakMap<object, Map<string, Waiting>>()
  /** Number of unchecked requests across all keys, and the number of checks in flight. */
  let pending = 0
  let judgements = 0
  /** Digests of keys whose last list request was rejected. */
  const rejected = new Set<string>()

  function waitingUnder(limits: object): Map<string, Waiting> {
    const known = waiting.get(limits)
    if (known) return known
    const keys = new Map<string, Waiting>()
    waiting.set(limits, keys)
    return keys
  }

  function joinOthers({ keyDigest, organizationHint, rateLimits }: AdmissionRequest): Waiting {
    const keys = waitingUnder(rateLimits ?? UNLIMITED)
    const known = keys.get(keyDigest)
    if (known) return known
    const end = (): void => {
      if (keys.get(keyDigest) === joined) keys.delete(keyDigest)
    }
    // The requests are counted when the statement is sent. Later arrivals join the next check.
    const send = (): JudgementValues => {
      end()
      return valuesOf(keyDigest, joined.count, rateLimits, organizationHint)
    }
    const judged = Promise.resolve().then(() => ask(organizationHint ?? keyDigest, JUDGE, send))
    const joined = { count: 0, askedAt: performance.now(), judged }
    keys.set(keyDigest, joined)
    judgements++
    judged.catch(end).finally(() => judgements--)
    return joined
  }

  function isOver(askedAt: number): boolean {
    return performance.now() - askedAt >= timeoutMs - TIMER_ERROR_MS
  }

  async function admit(request: AdmissionRequest, askedAt: number): Promise<Admission> {
    const joined = joinOthers(request)
    // A key using less than its fair share of the queue is never rejected because of other keys. The first request of
    // each check is limited by the batch queue.
    if (joined.count * judgements >= pending) limits?.rejectBeyond(pending)
    const place = joined.count++
    pending++
    try {
      return verdictOn(await joined.judged, place, request)
    } catch (error) {
      // The check times out relative to its first request. A later request with time left gets another check.
      if (!isOver(joined.askedAt) || isOver(askedAt)) throw error
    } finally {
      pending--
    }
    return admit(request, askedAt)
  }

  /** Returns the organization whose page can be read before the check is done. */
  function organizationAhead({ keyDigest, organizationHint }: AdmissionRequest): string | undefined {
    return hasRoom() && !rejected.has(keyDigest) ? organizationHint : undefined
  }

  function noteOutcome(keyDigest: string, { outcome }: Admission): void {
    if (outcome === 'admitted') rejected.delete(keyDigest)
    else rejected.add(keyDigest)
    if (rejected.size > REJECTED_MAX) rejected.clear()
  }

  async function readChanges(
    organizationId: string,
    list: ListStatements,
    limit: number,
    { order, values }: Beginning,
  ): Promise<Page> {
    const page =
      order === 'changes'
        ? await ask(organizationId, list.changes, () => ({ ...values, organizationId, limit }), limit)
        : await ask(organizationId, list.times, () => ({ ...values, organizationId, limit }), limit)
    // A missing position means that `since` came from another database.
    if (page.position === null) return readChanges(organizationId, list, limit, EVERYTHING)
    return { ...page, position: page.next ?? page.position }
  }

  async function readPage(
    organizationId: string,
    list: ListStatements,
    { limit, before, since }: PageRequest,
  ): Promise<Page> {
    if (since !== undefined) return readChanges(organizationId, list, limit, readBeginning(since))
    if (before !== undefined)
      return ask(organizationId, list.older, () => ({ organizationId, limit, before }), limit)
    return ask(organizationId, list.newest, () => ({ organizationId, limit }), limit)
  }

  return {
    admit: (request) => admit(request, performance.now()),
    limits,
    async admitToPage(request, list, asked) {
      const hint = organizationAhead(request)
      const ahead = hint === undefined ? undefined : readPage(hint, list, asked)
      // The check's outcome takes precedence, even if reading the page fails.
      ahead?.catch(() => {})
      const admission = await admit(request, performance.now())
      noteOutcome(request.keyDigest, admission)
      if (admission.outcome !== 'admitted') return { admission, page: null }
      const { organizationId } = admission.caller
      try {
        const page = hint === organizationId && ahead ? ahead : readPage(organizationId, list, asked)
        return { admission, ...(await page) }
      } catch (error) {
        return { admission, page: null, error }
      }
    },
  }
}

/** Maximum amount by which a timer may fire early, in ms. */
const TIMER_ERROR_MS = 2

/** Map key for requests without rate limits. */
const UNLIMITED = {}

function valuesOf(
  keyDigest: string,
  count: number,
  rateLimits: RateLimits | null,
  organizationHint = '',
): JudgementValues {
  return {
    keyDigest,
    wanted: rateLimits ? count : 0,
    keyPerSecond: rateLimits?.key.perSecond ?? 0,
    keyBurst: rateLimits?.key.burst ?? 0,
    organizationPerSecond: rateLimits?.organization.perSecond ?? 0,
    organizationBurst: rateLimits?.organization.burst ?? 0,
    organizationHint,
  }
}
