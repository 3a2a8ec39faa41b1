import { digestApiKey, readApiKey } from '../access/api-keys.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { serviceOf } from '../service.ts'
import { createUnknownCallers, type UnknownCallers } from './unknown-callers.ts'

/** Matches a bearer token. The scheme is case-insensitive and can be followed by spaces or tabs (RFC 9110). */
const BEARER = /^bearer[ \t]+([^\s,]+)$/i
const SCHEME = /^bearer\b/i
/** Maximum header length, more than any key needs. Longer headers are rejected without running a regular expression. */
const HEADER_MAX = 256

/** A key that was active when we last looked it up. */
export interface PresentedKey {
  readonly keyDigest: string
  readonly organizationHint: string
}

/** A request's credentials, checked as far as possible without hitting the store. */
export type Credentials =
  /** A key that was active when we last looked it up. */
  | { readonly kind: 'known'; readonly key: PresentedKey }
  /** Something that only the store can recognize as a key. */
  | UnknownKey
  | { readonly kind: 'refused'; readonly refusal: Refusal }

/** A key, or whatever the caller sent in place of a key. */
interface UnknownKey {
  readonly kind: 'unknown'
  readonly text: string
  readonly keyDigest: string
}

/** The parts of an `Exchange` needed to find the key. */
interface PresentingRequest {
  readonly credentials: Credentials
  peer(): string
  release(): void
  inTime<T>(work: Promise<T>, onLate?: () => unknown): Promise<T>
}

/** Separates requests with a valid key from the rest before the store gets involved. */
export interface Authentication {
  /** Reads credentials from the `Authorization` header. */
  read(authorization: string | undefined): Credentials
  /** See {@link UnknownCallers.enter}. */
  readonly enter: UnknownCallers['enter']
  /**
   * Finds a request's key. Callers whose key isn't known yet have to wait their turn. See {@link UnknownCallers}.
   *
   * @throws `Refusal` with status 401, or `BusinessApiError` with code `store_unavailable` if the store is unreachable
   */
  find(request: PresentingRequest): Promise<PresentedKey>
  /**
   * Forgets a key that the store has rejected.
   *
   * @returns the rejection to send
   */
  refuse(keyDigest: string): Refusal
}

/** Authenticates requests against the keys in a store. `deadlineMs` is the time limit for a request. */
export function createAuthentication(
  store: Pick<BusinessApiStore, 'apiKeys' | 'service' | 'findKey'>,
  deadlineMs: number,
): Authentication {
  const { importedKeys } = serviceOf(store)
  const callers = createUnknownCallers(store, deadlineMs)

  async function lookUp({ text, keyDigest }: UnknownKey, peer: string): Promise<PresentedKey> {
    // Reject strings that aren't in our key format (with a valid checksum) or the imported key format without asking
    // the store. We ignore the slot in an imported key, since it may come from another installation.
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

// We only create these once, so a flood of invalid requests doesn't generate stack traces.
const INVALID_KEY = refusals.invalidKey()
const INVALID: Credentials = { kind: 'refused', refusal: INVALID_KEY }
const NONE: Credentials = { kind: 'refused', refusal: refusals.noKey() }

/**
 * Returns a request's API key (see section 5 of the spec), or a rejection. The message is different when no key was
 * sent, but it's the same for every invalid key.
 */
function readKey(authorization: string | undefined): string | Credentials {
  // RFC 6750, section 3.1: don't send an error code if there's no bearer token.
  if (authorization === undefined || !SCHEME.test(authorization)) return NONE
  if (authorization.length > HEADER_MAX) return INVALID
  return BEARER.exec(authorization)?.[1] ?? INVALID
}
