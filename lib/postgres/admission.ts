import type { Admission, AdmissionRequest, AdmittedPage, PageRequest, Since } from '../access/admission.ts'
import type { RateLimits } from '../access/rate-limit.ts'
import { type Allotment, createAllotments, HOLD_MS } from './allotments.ts'
import type { AskForRequest } from './batches.ts'
import type { RecordDatabase } from './connection/database.ts'
import { type Beginning, EVERYTHING, readBeginning } from './position.ts'
import { createRefusedKeys } from './refused-keys.ts'
import { type AdmissionStatements, defineAdmission, FIND_ORGANIZATION } from './statements/admission.ts'
import type { AdmittedColumn, AdmittedValues } from './statements/admitted-write.ts'
import { GIVE_BACK, MAKE_BUCKETS } from './statements/buckets.ts'
import type { ListStatements } from './statements/list.ts'
import { ask, type ResultColumns, type Value } from './statements/statement.ts'
import {
  areEqual,
  hasSameOwnLimits,
  limitsOf,
  NO_LIMITS,
  type OwnedRequest,
  ownLimitsOf,
  pageFor,
  refusalOf,
  stateOf,
  UNAUTHENTICATED,
  verdict,
} from './verdict.ts'

// Longer than 250 lines: the three ways to judge a request (read, take tokens, write) share the life of a token.

/** The admission of requests by API keys. */
export interface Admissions {
  admit(request: AdmissionRequest): Promise<Admission>
  /** Returns whether {@link Admissions.admitAndWrite} has a token for a request. */
  isReady(request: AdmissionRequest): boolean
  /** Judges a request and, if admitted, gives the caller's page. */
  admitToPage<Representation>(
    request: AdmissionRequest,
    list: ListStatements,
    asked: PageRequest,
  ): Promise<AdmittedPage<Representation>>
  /**
   * Judges a request and carries out the write in the same statement, but only with a token at hand: no bucket must be locked while
   * the write waits for an idempotency key or for the disk.
   *
   * @param write sends a statement with the judgement's values, and gives `judge` the answer: `judge` returns
   *   {@link NOT_ADMITTED} for a request that is not admitted
   * @returns null when nothing was written, and the request is to be judged by {@link Admissions.admit}
   */
  admitAndWrite<Outcome>(
    request: AdmissionRequest,
    write: AdmittedWrite<Outcome>,
  ): Promise<Admitted<Outcome> | null>
  /** Gives back the tokens that are held, and from then on holds no tokens. */
  close(): void
}

/** The outcome of a write for a request that was not admitted. */
export const NOT_ADMITTED: unique symbol = Symbol('not admitted')

/** The answer of a write that also judges its request. */
type JudgedWrite = ResultColumns<AdmittedColumn, never>

type AdmittedWrite<Outcome> = (
  values: AdmittedValues,
  judge: (answer: JudgedWrite) => typeof NOT_ADMITTED | undefined,
) => Promise<Outcome | typeof NOT_ADMITTED>

/** An admission and the outcome of the write for an admitted caller. */
interface Admitted<Outcome> {
  readonly admission: Admission
  /** Null unless admitted. */
  readonly outcome: Outcome | null
}

/** The values of a page by name. */
type PageValues<Values> = Values & { readonly [Name in keyof Values]: Value }

const ADMIT = defineAdmission()

/** A second attempt follows the making of the buckets. */
const TAKE_ATTEMPTS = 3

/**
 * Creates the admission of a store's requests.
 *
 * @param askForRequest asks the statements that judge
 * @param holdsTokens false in a transaction, which may be rolled back
 */
export function createAdmissions(
  database: RecordDatabase,
  askForRequest: AskForRequest,
  holdsTokens = true,
): Admissions {
  const allotments = createAllotments((allotment, tokens) => giveBack(database, allotment, tokens))
  if (!holdsTokens) allotments.close()
  const refusedKeys = createRefusedKeys(({ keyDigest, organizationId, scope }) =>
    askForRequest(organizationId, ADMIT.read, { keyDigest, organizationId, scope }),
  )

  /** Returns a token for a request, if the token was not taken for an API with different limits on the same store. */
  function ofSameApi(token: Allotment | null, rateLimits: RateLimits): Allotment | null {
    if (token === null || areEqual(limitsOf(token.own, rateLimits), token.limits)) return token
    allotments.giveBack(token)
    return null
  }

  /** Judges a request with a token at hand. Returns null if the limits have changed since the token was taken. */
  async function admitWith<Values extends object>(
    token: Allotment | null,
    request: OwnedRequest,
    { read }: AdmissionStatements<Values>,
    page: PageValues<Values>,
  ): Promise<AdmittedPage<never> | null> {
    const { keyDigest, organizationId, scope, rateLimits } = request
    const values = Object.assign({ keyDigest, organizationId, scope }, page)
    const answer = await askForRequest(organizationId, read, values)
    if (answer.keyId === null) {
      if (token) allotments.giveBack(token)
      return UNAUTHENTICATED
    }
    if (rateLimits === null || token === null) return pageFor(answer, request, null)
    if (!hasSameOwnLimits(answer, token.own)) {
      allotments.drop(token)
      return null
    }
    return pageFor(answer, request, stateOf(answer, token.limits, token.left))
  }

  /** Judges a request and takes a token, or several tokens if the key is busy. */
  async function admitAndTake<Values extends object>(
    request: OwnedRequest,
    rateLimits: RateLimits,
    { take }: AdmissionStatements<Values>,
    page: PageValues<Values>,
  ): Promise<AdmittedPage<never>> {
    const { keyDigest, organizationId, scope } = request
    const wanted = allotments.wanted(keyDigest)
    let allotment: Allotment | null = null
    try {
      for (let attempt = 0; attempt < TAKE_ATTEMPTS; attempt++) {
        const takenAt = performance.now()
        const answer = await askForRequest(organizationId, take, {
          ...page,
          keyDigest,
          organizationId,
          scope,
          keyPerSecond: rateLimits.key.perSecond,
          keyBurst: rateLimits.key.burst,
          organizationPerSecond: rateLimits.organization.perSecond,
          organizationBurst: rateLimits.organization.burst,
          wanted,
          holdSeconds: HOLD_MS / 1000,
        })
        const { keyId } = answer
        if (keyId === null) return UNAUTHENTICATED
        const limits = limitsOf(answer, rateLimits)
        const left = Number(answer.tokens) - 1
        if (left >= 0) {
          if (left > 0) {
            const own = ownLimitsOf(answer)
            const voidAt = Number(answer.voidAt)
            allotment = { keyDigest, organizationId, keyId, limits, own, takenAt, voidAt, size: left, left }
          }
          return pageFor(answer, request, stateOf(answer, limits, left))
        }
        if (answer.keyFullIn !== null && answer.organizationFullIn !== null) {
          return pageFor(answer, request, refusalOf(answer, limits))
        }
        await ask(database, organizationId, MAKE_BUCKETS, { organizationId, keyId })
      }
      throw new Error('Cannot take a token because business_api.rate_buckets does not keep its rows')
    } finally {
      if (wanted > 1) allotments.keep(keyDigest, allotment)
    }
  }

  async function judge<Values extends object>(
    request: AdmissionRequest,
    statements: AdmissionStatements<Values>,
    page: PageValues<Values>,
  ): Promise<AdmittedPage<never>> {
    const { keyDigest, scope, rateLimits } = request
    const organizationId = request.organizationHint ?? (await organizationOf(database, keyDigest))
    if (organizationId === null) return UNAUTHENTICATED
    const owned = { keyDigest, organizationId, scope, rateLimits }
    if (rateLimits === null) return (await admitWith(null, owned, statements, page)) ?? UNAUTHENTICATED
    const token = allotments.isTakenEarly(keyDigest)
      ? null
      : ofSameApi(allotments.spend(keyDigest), rateLimits)
    const atHand = token && (await admitWith(token, owned, statements, page))
    if (atHand) return atHand
    for (let attempt = 1; ; attempt++) {
      const begunAt = performance.now()
      const taken = await refusedKeys.judge(owned, rateLimits, () =>
        admitAndTake(owned, rateLimits, statements, page),
      )
      if (taken.admission.outcome !== 'limited') return taken
      // Another request of the key may have taken the last tokens for this process.
      const lateToken = ofSameApi(await allotments.spendLate(keyDigest), rateLimits)
      const late = lateToken && (await admitWith(lateToken, owned, statements, page))
      if (late) return late
      // Tokens that this process was giving back, or holds for other keys, are no reason for a refusal.
      const isShort = taken.admission.rateLimit?.organization.remaining === 0
      const isBack = await allotments.recall(organizationId, begunAt, isShort)
      if (!isBack || attempt === TAKE_ATTEMPTS) {
        refusedKeys.note(keyDigest)
        return taken
      }
    }
  }

  /** Judges a request and gives a page of changes, from the beginning if the position is of another database. */
  async function judgeChanges(
    request: AdmissionRequest,
    list: ListStatements,
    limit: number,
    since: Since,
  ): Promise<AdmittedPage<never>> {
    const judged = await judgeFrom(request, list, limit, readBeginning(since))
    if (judged.admission.outcome !== 'admitted') return judged
    const isForeign = judged.position === null
    // The request has already taken a token. The key may have been revoked since.
    const read = isForeign
      ? await judgeFrom({ ...request, rateLimits: null }, list, limit, EVERYTHING)
      : judged
    if (read.admission.outcome !== 'admitted') return read
    return { ...read, admission: judged.admission, position: read.next ?? read.position }
  }

  function judgeFrom(
    request: AdmissionRequest,
    { changes, times }: ListStatements,
    limit: number,
    { order, values }: Beginning,
  ): Promise<AdmittedPage<never>> {
    return order === 'changes'
      ? judge(request, changes, { ...values, limit })
      : judge(request, times, { ...values, limit })
  }

  async function admitAndWrite<Outcome>(
    request: AdmissionRequest,
    write: AdmittedWrite<Outcome>,
  ): Promise<Admitted<Outcome> | null> {
    const { keyDigest, scope, rateLimits, organizationHint: organizationId } = request
    const token = rateLimits && ofSameApi(allotments.spend(keyDigest), rateLimits)
    if (organizationId === undefined || (rateLimits && !token)) return null
    const owned = { ...request, organizationId }
    let judged: JudgedWrite | undefined
    const values = {
      keyDigest,
      organizationId,
      scope,
      isLimited: String(token !== null),
      ...(token?.own ?? NO_LIMITS),
    }
    const outcome = await write(values, (answer) => {
      judged = answer
      return answer.hasScope === 'true' && answer.hasSameLimits === 'true' ? undefined : NOT_ADMITTED
    })
    const seen = judged as JudgedWrite | undefined
    if (seen?.keyId === null) {
      if (token) allotments.giveBack(token)
      return { ...UNAUTHENTICATED, outcome: null }
    }
    if (seen === undefined) {
      // Another write held the idempotency key, so that the statement gave no answer.
      if (token) allotments.giveBack(token)
      return null
    }
    if (seen.hasSameLimits === 'false') {
      if (token) allotments.drop(token)
      return null
    }
    const state = token && rateLimits && stateOf(seen, token.limits, token.left)
    return { admission: verdict(seen, owned, state), outcome: outcome === NOT_ADMITTED ? null : outcome }
  }

  return {
    admitAndWrite,
    isReady: ({ rateLimits, keyDigest }) => rateLimits === null || allotments.has(keyDigest),
    admit: async (request) => (await judge(request, ADMIT, {})).admission,
    admitToPage(request, list, { limit, before, since }) {
      if (since !== undefined) return judgeChanges(request, list, limit, since)
      if (before !== undefined) return judge(request, list.older, { limit, before })
      return judge(request, list.newest, { limit })
    },
    close: allotments.close,
  }
}

async function organizationOf(database: RecordDatabase, keyDigest: string): Promise<string | null> {
  return (await ask(database, null, FIND_ORGANIZATION, { keyDigest })).organizationId
}

/** Gives tokens back. The statement is never sent again, because tokens must not be given back twice. Tokens may be lost instead. */
async function giveBack(
  database: RecordDatabase,
  { organizationId, keyId, limits, own, voidAt }: Allotment,
  tokens: number,
): Promise<void> {
  const values = {
    organizationId,
    keyId,
    ...own,
    voidAt,
    tokens,
    keySeconds: tokens / limits.key.perSecond,
    organizationSeconds: tokens / limits.organization.perSecond,
  }
  await ask(database, organizationId, GIVE_BACK, values, { isOnce: true }).catch(() => {})
}
