import type { Admission, AdmissionRequest, AdmittedPage, PageRequest } from '../../access/admission.ts'
import type { RateLimits } from '../../access/rate-limit.ts'
import { type Beginning, EVERYTHING, readBeginning } from '../position.ts'
import type { PageColumn } from '../statements/changes.ts'
import type { ListStatements } from '../statements/list.ts'
import type { ResultColumns } from '../statements/statement.ts'
import type { Asking } from './batches.ts'
import { JUDGE, type JudgementValues } from './judgement.ts'
import { type Judged, verdictOn } from './verdict.ts'

/** Admits or rejects requests by API keys. */
export interface Admissions {
  admit(request: AdmissionRequest): Promise<Admission>
  /** Checks a request and, if it's admitted, reads the page. */
  admitToPage<Representation>(
    request: AdmissionRequest,
    list: ListStatements,
    asked: PageRequest,
  ): Promise<AdmittedPage<Representation>>
  readonly limits: Asking['limits']
}

/** Requests with the same key that are waiting to be checked together. */
interface Waiting {
  count: number
  /** In milliseconds on the monotonic clock. */
  readonly askedAt: number
  readonly judged: Promise<Judged>
}

type Page = ResultColumns<PageColumn, 'page'>

/** Maximum number of recently rejected keys that we remember. Each one takes about 100 bytes. */
const REJECTED_MAX = 10_000

/**
 * Creates the admission of a store's requests. Requests are checked by one statement and pages are read by another, so
 * the buckets aren't locked while records are read or a slow response is sent. Waiting requests with the same key are
 * checked together and take their tokens under a single lock.
 *
 * If only a few requests are waiting, we send both statements at once and hold back the page until the check is done.
 * That way a list takes a single round trip. After a request of a key was rejected, we check first, so requests over
 * the limit don't cost a page.
 */
export function createAdmissions({ ask, limits, hasRoom, timeoutMs }: Asking): Admissions {
  /** By the API's rate limits, because a store can be used by several APIs, and then by key. */
  const waiting = new WeakMap<object, Map<string, Waiting>>()
  /** Number of unchecked requests of all keys, and the number of checks they're waiting for. */
  let pending = 0
  let judgements = 0
  /** Digests of keys whose last list was rejected. */
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
    // We count the requests when the statement is sent. Anything later waits for the next one.
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
    // A key that uses less than its fair share of the queue is never rejected because of other keys. The first request
    // of each check is limited by the queue of the batches.
    if (joined.count * judgements >= pending) limits?.rejectBeyond(pending)
    const place = joined.count++
    pending++
    try {
      return verdictOn(await joined.judged, place, request)
    } catch (error) {
      // The timeout of a check starts with its first request. If a later one has time left, it's checked again.
      if (!isOver(joined.askedAt) || isOver(askedAt)) throw error
    } finally {
      pending--
    }
    return admit(request, askedAt)
  }

  /** Returns the organization whose page we may read before the check is done. */
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
    // If there's no position, the given one belongs to another database.
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
      // The result of the check comes first, even if reading the page fails.
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

/** How early a timer may fire, in ms. */
const TIMER_ERROR_MS = 2

/** Used as the key if there are no limits. */
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
