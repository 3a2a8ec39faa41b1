import { digestApiKey, readApiKey } from '../access/api-keys.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { serviceOf } from '../service.ts'
import { createUnknownCallers, type UnknownCallers } from './unknown-callers.ts'

/** Matches a bearer token. The scheme is case-insensitive and can be followed by spaces or tabs (RFC 9110). */
const BEARER = /^bearer[ \t]+([^\s,]+)$/i
const SCHEME = /^bearer\b/i
/** Maximum length of the header, more than any key needs. Longer ones are rejected without a regular expression. */
const HEADER_MAX = 256

/** A key from a request that was active when it was last looked up. */
export interface PresentedKey {
  readonly keyDigest: string
  readonly organizationHint: string
}

/** The credentials of a request as far as we can check them without the store. */
export type Credentials =
  /** A key that was active when it was last looked up. */
  | { readonly kind: 'known'; readonly key: PresentedKey }
  /** Something that only the store can recognize as a key. */
  | UnknownKey
  | { readonly kind: 'refused'; readonly refusal: Refusal }

/** A key, or any string sent in place of a key. */
interface UnknownKey {
  readonly kind: 'unknown'
  readonly text: string
  readonly keyDigest: string
}

/** The parts of an `Exchange` needed to find its key. */
interface PresentingRequest {
  readonly credentials: Credentials
  peer(): string
  release(): void
  inTime<T>(work: Promise<T>, onLate?: () => unknown): Promise<T>
}

/** Separates requests with a valid key from all others before the store checks them. */
export interface Authentication {
  /** Reads the credentials of a request from its `Authorization` header. */
  read(authorization: string | undefined): Credentials
  /** See {@link UnknownCallers.enter}. */
  readonly enter: UnknownCallers['enter']
  /**
   * Finds the key of a request. Callers without a known key have to wait for their turn. See {@link UnknownCallers}.
   *
   * @throws `Refusal` with 401, or `BusinessApiError` with code `store_unavailable` if the store can't be reached
   */
  find(request: PresentingRequest): Promise<PresentedKey>
  /**
   * Forgets a key that the store has rejected.
   *
   * @returns the refusal to send
   */
  refuse(keyDigest: string): Refusal
}

/** Authenticates requests using the keys in a store. `deadlineMs` is the time limit for a request. */
export function createAuthentication(
  store: Pick<BusinessApiStore, 'apiKeys' | 'service' | 'findKey'>,
  deadlineMs: number,
): Authentication {
  const { importedKeys } = serviceOf(store)
  const callers = createUnknownCallers(store, deadlineMs)

  async function lookUp({ text, keyDigest }: UnknownKey, peer: string): Promise<PresentedKey> {
    // If a string has neither the format and checksum of a key nor the format of an imported key, reject it without
    // asking the store. An imported key may contain a slot that belongs to another installation, so ignore it.
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

// Only created once, so a flood of invalid requests doesn't produce stack traces.
const INVALID_KEY = refusals.invalidKey()
const INVALID: Credentials = { kind: 'refused', refusal: INVALID_KEY }
const NONE: Credentials = { kind: 'refused', refusal: refusals.noKey() }

/**
 * Returns the API key from a request (specification, section 5), or the refused credentials. The message differs if
 * there's no key at all, but is the same for all keys.
 */
function readKey(authorization: string | undefined): string | Credentials {
  // RFC 6750, section 3.1: no error code if a request has no bearer token.
  if (authorization === undefined || !SCHEME.test(authorization)) return NONE
  if (authorization.length > HEADER_MAX) return INVALID
  return BEARER.exec(authorization)?.[1] ?? INVALID
}
