import type { Admission, AdmissionRequest, AdmittedPage, PageRequest } from '../../access/admission.ts'
import type { RateLimits } from '../../access/rate-limit.ts'
import { type Beginning, EVERYTHING, readBeginning } from '../position.ts'
import type { PageColumn } from '../statements/changes.ts'
import type { ListStatements } from '../statements/list.ts'
import type { ResultColumns } from '../statements/statement.ts'
import type { Asking } from './batches.ts'
import { JUDGE, type JudgementValues } from './judgement.ts'
import { type Judged, verdictOn } from './verdict.ts'

/** The admission of requests by API keys. */
export interface Admissions {
  admit(request: AdmissionRequest): Promise<Admission>
  /** Judges a request and, if admitted, reads the caller's page. */
  admitToPage<Representation>(
    request: AdmissionRequest,
    list: ListStatements,
    asked: PageRequest,
  ): Promise<AdmittedPage<Representation>>
  readonly limits: Asking['limits']
}

/** The requests of a key that wait for the same judgement. */
interface Waiting {
  count: number
  /** On the monotonic clock, in milliseconds. */
  readonly askedAt: number
  readonly judged: Promise<Judged>
}

type Page = ResultColumns<PageColumn, 'page'>

/** Maximum number of keys in memory whose last request was rejected, about 100 bytes each. */
const REJECTED_MAX = 10_000

/**
 * Creates the admission of a store's requests. A request is checked by one statement and its page is read by another, so no bucket is
 * locked while records are read or a slow response is sent. A key's waiting requests are checked together and take their tokens under
 * one lock of the buckets.
 *
 * While few requests wait, both statements are sent at once, and the page waits for the verdict: a list takes one round trip. After a
 * key's request was rejected, the verdict comes first, so requests over a limit cost no pages.
 */
export function createAdmissions({ ask, limits, hasRoom, timeoutMs }: Asking): Admissions {
  /** By the API's limits (a store may have several) and by key. */
  const waiting = new WeakMap<object, Map<string, Waiting>>()
  /** The requests without a verdict, of all keys, and the judgements that they wait for. */
  let pending = 0
  let judgements = 0
  /** Digests of the keys whose last list was rejected. */
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
    // The requests are counted when the statement is sent: a later request waits for the next one.
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
    // A key with less than an equal share of the places is kept out by no other key. The queue of the batches bounds the first requests.
    if (joined.count * judgements >= pending) limits?.rejectBeyond(pending)
    const place = joined.count++
    pending++
    try {
      return verdictOn(await joined.judged, place, request)
    } catch (error) {
      // The time of a judgement begins with its first request: a later request has time left, and is judged once more.
      if (!isOver(joined.askedAt) || isOver(askedAt)) throw error
    } finally {
      pending--
    }
    return admit(request, askedAt)
  }

  /** Returns the organization whose page may be read before the verdict. */
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
    // Without a position, the position that was given is of another database.
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
      // The verdict is told first, also where the page fails.
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

/** Stands for no limits. */
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
