import { digestApiKey, readApiKey } from '../access/api-keys.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { serviceOf } from '../service.ts'
import { createUnknownCallers, type UnknownCallers } from './unknown-callers.ts'

/** RFC 9110: the scheme ignores case; white space follows, tabs too. */
const BEARER = /^bearer[ \t]+([^\s,]+)$/i
const SCHEME = /^bearer\b/i
/** Longer than any key: a longer text is refused without a regular expression. */
const HEADER_MAX = 256

/** The key of a request, in force at the last lookup. */
export interface PresentedKey {
  readonly keyDigest: string
  readonly organizationHint: string
}

/** The credentials of a request, as far as the process can judge them without the store. */
export type Credentials =
  /** A key that was in force at its last lookup. */
  | { readonly kind: 'known'; readonly key: PresentedKey }
  /** A key that only the store can tell from an invented one. */
  | UnknownKey
  | { readonly kind: 'refused'; readonly refusal: Refusal }

/** A key, or a text in the place of one. */
interface UnknownKey {
  readonly kind: 'unknown'
  readonly text: string
  readonly keyDigest: string
}

/** The parts of an exchange that finding the key needs: see `Exchange`. */
interface PresentingRequest {
  readonly credentials: Credentials
  peer(): string
  release(): void
  inTime<T>(work: Promise<T>, onLate?: () => unknown): Promise<T>
}

/** Separates requests with a valid key from all other requests, before the store judges the former. */
export interface Authentication {
  /** Reads the credentials of a request. @param authorization the header of the request */
  read(authorization: string | undefined): Credentials
  /** See {@link UnknownCallers.enter}. */
  readonly enter: UnknownCallers['enter']
  /**
   * Finds the key that a request presents. A caller without a known key waits for a turn: see {@link UnknownCallers}.
   *
   * @throws `Refusal` 401; `BusinessApiError` with code `store_unavailable` when the store cannot be reached
   */
  find(request: PresentingRequest): Promise<PresentedKey>
  /**
   * Forgets a key that the store has rejected.
   *
   * @returns the refusal
   */
  refuse(keyDigest: string): Refusal
}

/** Authenticates by the keys of a store. @param deadlineMs the time of a request */
export function createAuthentication(
  store: Pick<BusinessApiStore, 'apiKeys' | 'service' | 'findKey'>,
  deadlineMs: number,
): Authentication {
  const { importedKeys } = serviceOf(store)
  const callers = createUnknownCallers(store, deadlineMs)

  async function lookUp({ text, keyDigest }: UnknownKey, peer: string): Promise<PresentedKey> {
    // A text of the wrong shape or checksum, and not of the form of an imported key, is refused without asking the store. An imported key
    // may carry the slot of another installation's organization.
    const slot = importedKeys?.pattern.test(text) ? null : readApiKey(text)
    const organizationHint = slot === undefined ? null : await callers.find(keyDigest, slot, peer)
    if (organizationHint === null) throw INVALID_KEY
    return { keyDigest, organizationHint }
  }

  return {
    enter: callers.enter,
    read(authorization) {
      const text = readKey(authorization)
      if (typeof text !== 'string') return text
      const keyDigest = digestApiKey(text)
      const organizationHint = callers.organizationOf(keyDigest)
      return organizationHint === undefined
        ? { kind: 'unknown', text, keyDigest }
        : { kind: 'known', key: { keyDigest, organizationHint } }
    },
    async find({ credentials, peer, inTime, release }) {
      if (credentials.kind === 'known') return credentials.key
      try {
        if (credentials.kind === 'refused') throw credentials.refusal
        return await inTime(lookUp(credentials, peer()))
      } catch (error) {
        if (error instanceof Refusal) {
          release()
          await inTime(callers.awaitRefusal(peer()), () => error)
        }
        throw error
      }
    },
    refuse(keyDigest) {
      callers.forget(keyDigest)
      return INVALID_KEY
    },
  }
}

// Made once: a flood of requests without a valid key pays for no stack traces.
const INVALID_KEY = refusals.invalidKey()
const INVALID: Credentials = { kind: 'refused', refusal: INVALID_KEY }
const NONE: Credentials = { kind: 'refused', refusal: refusals.noKey() }

/**
 * Returns the API key that a request presents (specification, section 5), or the refused credentials. A missing key has a
 * text of its own; the text is the same for every key that was sent.
 */
function readKey(authorization: string | undefined): string | Credentials {
  // RFC 6750, section 3.1: no error code for a request that presents no bearer key at all.
  if (authorization === undefined || !SCHEME.test(authorization)) return NONE
  if (authorization.length > HEADER_MAX) return INVALID
  return BEARER.exec(authorization)?.[1] ?? INVALID
}
