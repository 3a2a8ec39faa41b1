import { digestApiKey, isWellFormedApiKey } from '../access/api-keys.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type Refusal, refusals } from '../http/refusal.ts'
import { createKeyLookups, type KeyLookups } from './key-lookups.ts'

/** RFC 9110: the scheme ignores case; white space follows, tabs too. */
const BEARER = /^bearer[ \t]+([^\s,]+)$/i
const SCHEME = /^bearer\b/i
/** Longer than any key: a longer text is refused without a regular expression. */
const HEADER_MAX = 256

/** The key of a request, in force at the last look-up. */
export interface PresentedKey {
  readonly keyDigest: string
  readonly organizationHint: string
}

/** The credentials of a request, as far as the process can judge them without the store. */
export type Credentials =
  /** A key that was in force at its last look-up. */
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

/** Separates requests with a valid key from all other requests, before the store judges the former. */
export interface Authentication {
  /** Reads the credentials of a request. @param authorization the header of the request */
  read(authorization: string | undefined): Credentials
  /**
   * Looks up an unknown key. A text of the wrong shape or checksum, and not of the form of an imported key, is refused without asking the store.
   *
   * @param peer names the group of callers that share their turns
   * @throws `Refusal` 401; `BusinessApiError` with code `store_unavailable` when the store cannot be reached
   */
  find(key: UnknownKey, peer: () => string): Promise<PresentedKey>
  /**
   * Forgets a key that the store has refused.
   *
   * @returns the refusal
   */
  refuse(keyDigest: string): Refusal
}

/** Authenticates by the keys of a store. Shards are looked up apart: a silent shard delays no key of the others. */
export function createAuthentication(
  store: Pick<BusinessApiStore, 'apiKeys' | 'service' | 'shards'>,
): Authentication {
  const { importedKeys } = store.service
  const parts = (store.shards ?? [{ store }]).map((part) => createKeyLookups(part.store.apiKeys))
  return {
    read(authorization) {
      const text = readKey(authorization)
      if (typeof text !== 'string') return text
      const keyDigest = digestApiKey(text)
      for (const lookups of parts) {
        const organizationHint = lookups.remembered(keyDigest)
        if (organizationHint !== undefined) return { kind: 'known', key: { keyDigest, organizationHint } }
      }
      return { kind: 'unknown', text, keyDigest }
    },
    async find({ text, keyDigest }, peer) {
      const isKey = isWellFormedApiKey(text) || importedKeys?.pattern.test(text)
      const organizationHint = isKey ? await find(parts, keyDigest, peer()) : null
      if (organizationHint === null) throw INVALID_KEY
      return { keyDigest, organizationHint }
    },
    refuse(keyDigest) {
      for (const lookups of parts) lookups.forget(keyDigest)
      return INVALID_KEY
    },
  }
}

/** Waits for the first part that has a key. Without one, every part must answer, because a silent part may have it. */
function find(parts: readonly KeyLookups[], digest: string, peer: string): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const looking = parts.map(async (lookups) => {
      const organizationId = await lookups.find(digest, peer)
      if (organizationId !== null) resolve(organizationId)
    })
    // A promise is settled once: neither has an effect after the key was found.
    Promise.allSettled(looking)
      .then(() => Promise.all(looking))
      .then(() => resolve(null), reject)
  })
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
