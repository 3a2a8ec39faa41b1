import * as v from 'valibot'
import {
  type ApiKey,
  type ApiKeyRecord,
  type ApiKeyRotation,
  digestApiKey,
  generateApiKey,
} from '../access/api-keys.ts'
import type { RateLimit } from '../access/rate-limit.ts'
import { type KeyScope, type Scope, type ScopeOwner, scopesOf } from '../access/scopes.ts'
import { slotOf } from '../access/slots.ts'
import { ALREADY_EXISTS, BusinessApiError, INVALID_STATE, LIMIT_REACHED, refused } from '../base/errors.ts'
import * as field from '../base/fields.ts'
import { type Call, defineCall, found, IdSchema, moment, newIdOf, setOf } from '../base/host-input.ts'
import type { Clock, Ids } from '../base/ids.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { type Acting, audited, defineAuditedCall, insertedItem, type MakeEntry } from './calls.ts'
import { OVERLAP_MS, OverlapSchema } from './overlap.ts'
import { RateLimitSchema } from './rate-limits.ts'

// This file is over 250 lines because half of it is documentation for the calls and their types.

// --- Types ---

/** The properties of a new API key. */
export interface NewApiKey<Scopes extends string = Scope> extends Acting {
  /** Id of the new key, `key_<ulid>`. Makes retries safe, since an id is only used once. Defaults to a new id. */
  readonly id?: string
  /** A human-readable name, 1 to 100 characters. */
  readonly name: string
  /** The key's scopes. At least one, no duplicates. */
  readonly scopes: readonly Scopes[]
  /** When the key expires, as a future `Date` or ISO 8601 with a time zone. Defaults to `null` (never). */
  readonly expiresAt?: Date | string | null
  /** The key's own rate limit. Defaults to `null`, which means the API's limit for keys. */
  readonly rateLimit?: RateLimit | null
}

/** A key from your previous API. `digest` is the hex SHA-256 of the entire key. `prefix` has 0 to 24 characters. */
export interface ImportedApiKey<Scopes extends string = Scope>
  extends NewApiKey<Scopes>,
    Pick<ApiKeyRecord, 'digest' | 'prefix' | 'lastFour'> {}

/** A newly created key. */
export interface CreatedApiKey extends ApiKey {
  /** The key itself. Only returned once, since we only store a digest. */
  readonly key: string
}

/** Changes to an API key. Scopes can't be changed, so create another key instead. */
export interface ApiKeyUpdate extends Acting {
  /** A human-readable name, 1 to 100 characters. */
  readonly name: string
  /** The expected current name. If it has changed, the call fails with `invalid_state`. Not checked by default. */
  readonly replaces?: string | undefined
}

/** Options for `rotate`. */
export interface RotateApiKeyOptions extends Acting {
  /** Id of the new key. See {@link NewApiKey}. */
  readonly id?: string
  /** How long the previous key stays active, in ms (up to 30 days), or 0 to revoke it. Defaults to 24 hours. */
  readonly overlapMs?: number
  /** When the new key expires, or `null` for never. Defaults to the previous key's expiry. */
  readonly expiresAt?: Date | string | null
}

/** A key that replaces another one. Like any new key, it can't be shown again. */
export interface RotatedApiKey extends CreatedApiKey {
  /** The previous key, which is either revoked or stays active during the overlap period. */
  readonly previous: ApiKey
}

/** Manages an organization's API keys. @typeParam Scopes the names of the service's scopes */
export interface ApiKeySettings<Scopes extends string = Scope> {
  /**
   * Creates a key. Every call creates another one, unless you pass the same `id` again.
   *
   * @throws `BusinessApiError` with code `limit_reached` if the organization already has `maxApiKeys` active keys, or
   * `already_exists` if the id was used before. In that case, the error's `record` is the key's current state as
   * returned by `get`, without the key itself
   */
  create(organizationId: string, newKey: NewApiKey<Scopes>): Promise<CreatedApiKey>

  /**
   * Imports a key from your previous API. The key keeps working, but can't be shown.
   *
   * @throws `TypeError` if the service doesn't define `importedKeys`, `BusinessApiError` with code `limit_reached` like
   * `create`, or `already_exists` if the id was used before or any organization has a key with this digest. You can't
   * tell these two apart, and there is no `record`
   */
  import(organizationId: string, key: ImportedApiKey<Scopes>): Promise<ApiKey>

  /**
   * Returns a key, even if it's revoked or expired.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no key with this id
   */
  get(organizationId: string, keyId: string): Promise<ApiKey>

  /** Lists an organization's keys, including revoked and expired ones, newest first. */
  list(organizationId: string): Promise<readonly ApiKey[]>

  /**
   * Renames a key, even if it's revoked or expired.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no key with this id
   */
  update(organizationId: string, keyId: string, update: ApiKeyUpdate): Promise<ApiKey>

  /**
   * Revokes a key, effective with the next request in every process. Revoking a key again keeps the original timestamp.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no key with this id
   */
  revoke(organizationId: string, keyId: string, options?: Acting): Promise<ApiKey>

  /**
   * Creates a key with the same name, scopes and rate limit. The previous key stops working at the end of the overlap
   * period (by the store's clock) or at its expiry, whichever is sooner. A key can only be rotated once, even if two
   * calls race. After that, rotate its successor.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no key with this id, `invalid_state` if
   * the key is revoked, expired or already rotated, `already_exists` if the new key's id was used before (see
   * `create`), or `limit_reached` if rotations have already doubled the `maxApiKeys` active keys
   */
  rotate(organizationId: string, keyId: string, options?: RotateApiKeyOptions): Promise<RotatedApiKey>
}

// --- Inputs ---

const momentRequirement =
  'must be null, a Date, or ISO 8601 with a time zone, in the future and before the year 10000'

function defineCalls(clock: Clock, scopes: readonly KeyScope[]) {
  const ExpirySchema = v.pipe(
    moment(momentRequirement),
    v.check((expiry) => Date.parse(expiry) > clock(), momentRequirement),
  )
  const entries = {
    id: v.exactOptional(newIdOf('key')),
    name: field.text(1, 100),
    scopes: setOf<KeyScope>(
      (scope) => scopes.includes(scope),
      `must be one or more of ${scopes.join(', ')}, each once`,
    ),
    expiresAt: v.exactOptional(v.nullable(ExpirySchema), null),
    rateLimit: v.exactOptional(v.nullable(RateLimitSchema), null),
  }
  return {
    readCreate: defineAuditedCall('Cannot create an API key', entries, { judgesUndefined: true }),
    readImport: defineAuditedCall(IMPORT, { ...entries, ...IMPORTED }, { judgesUndefined: true }),
    readGet: defineCall('Cannot show an API key', { keyId: IdSchema }),
    readList: defineCall('Cannot list API keys', {}),
    readUpdate: defineAuditedCall('Cannot update an API key', {
      keyId: IdSchema,
      name: field.text(1, 100),
      replaces: v.exactOptional(v.string()),
    }),
    readRevoke: defineAuditedCall('Cannot revoke an API key', { keyId: IdSchema }),
    readRotate: defineAuditedCall(
      'Cannot rotate an API key',
      {
        keyId: IdSchema,
        id: v.exactOptional(newIdOf('key')),
        overlapMs: v.exactOptional(OverlapSchema, OVERLAP_MS),
        expiresAt: v.exactOptional(v.nullable(ExpirySchema)),
      },
      { judgesUndefined: true },
    ),
  }
}

const IMPORT = 'Cannot import an API key'

function matching(pattern: RegExp, requirement: string) {
  return v.pipe(v.string(requirement), v.regex(pattern, requirement))
}

const IMPORTED = {
  digest: v.pipe(
    matching(/^[0-9a-f]{64}$/i, 'must be the SHA-256 digest of the whole key, 64 hexadecimal digits'),
    v.toLowerCase(),
  ),
  prefix: matching(/^[!-~]{0,24}$/, 'must be at most 24 visible ASCII characters'),
  lastFour: matching(/^[!-~]{4}$/, 'must be four visible ASCII characters'),
}

// --- Calls ---

/** Dependencies of the API key calls. */
export interface ApiKeyTools extends ScopeOwner {
  readonly keyPrefix: string
  readonly importedKeys?: object | undefined
  readonly maxApiKeys: number
  readonly ids: Ids
  readonly clock: Clock
  readonly makeEntry: MakeEntry
}

/** Creates the API key calls. */
export function createApiKeySettings(
  { apiKeys }: Pick<BusinessApiStore, 'apiKeys'>,
  { keyPrefix, importedKeys, scopes, maxApiKeys, ids, clock, makeEntry }: ApiKeyTools,
): ApiKeySettings<string> {
  const { readCreate, readImport, readGet, readList, readUpdate, readRevoke, readRotate } = defineCalls(
    clock,
    scopesOf({ scopes }),
  )

  /** Generates a key, along with the parts of its record that don't depend on the call. */
  function generate(organizationId: string, id = ids('key')): { key: string; generated: GeneratedKey } {
    const key = generateApiKey(keyPrefix, slotOf(organizationId))
    const generated = {
      id,
      digest: digestApiKey(key),
      prefix: `${keyPrefix}_live_`,
      lastFour: key.slice(-4),
      createdAt: toTimestamp(clock()),
    }
    return { key, generated }
  }

  const refusals = {
    taken: `its ${TAKEN}`,
    full:
      `the organization has reached its limit of ${maxApiKeys} active ${maxApiKeys === 1 ? 'key' : 'keys'}: ` +
      "revoke one, or raise option 'maxApiKeys'",
  }

  return {
    async create(organizationId, newKey) {
      const call = readCreate(organizationId, newKey)
      const { id, ...chosen } = call.input
      const { key, generated } = generate(call.organizationId, id)
      const record = { ...generated, ...chosen }
      const request = audited(makeEntry, call, 'api_key.created', record.id, chosen)
      const insertion = await apiKeys.insert({ ...request, key: record, limit: maxApiKeys })
      return { key, ...insertedItem(call, insertion, refusals) }
    },

    async import(organizationId, given) {
      if (!importedKeys) {
        const advice = 'give defineService the pattern of such keys'
        throw new TypeError(
          `${IMPORT} because the service has no importedKeys, and the API would answer 401: ${advice}`,
        )
      }
      const call = readImport(organizationId, given)
      const { id = ids('key'), digest, prefix, lastFour, ...chosen } = call.input
      const key = { id, digest, prefix, lastFour, ...chosen, createdAt: toTimestamp(clock()) }
      const request = audited(makeEntry, call, 'api_key.imported', id, chosen)
      const insertion = await apiKeys.insert({ ...request, key, limit: maxApiKeys, isImported: true })
      if (insertion.outcome !== 'already_exists') return insertedItem(call, insertion, refusals)
      throw refused(IMPORT, ALREADY_EXISTS, 'a key with its id or digest already exists')
    },

    async get(organizationId, keyId) {
      const call = readGet(organizationId, { keyId })
      return found(await apiKeys.get(call.organizationId, call.input.keyId), call.action)
    },

    list: async (organizationId) => apiKeys.list(readList(organizationId).organizationId),

    async update(organizationId, keyId, update) {
      const call = readUpdate(organizationId, update, { keyId })
      const { keyId: id, name, replaces } = call.input
      const request = audited(makeEntry, call, 'api_key.updated', id, { name })
      const key = found(await apiKeys.update({ ...request, keyId: id, name, replaces }), call.action)
      if (replaces === undefined || key.name === name) return key
      throw refused(call.action, INVALID_STATE, 'its name was changed in the meantime')
    },

    async revoke(organizationId, keyId, options) {
      const call = readRevoke(organizationId, options, { keyId })
      const { keyId: id } = call.input
      const request = audited(makeEntry, call, 'api_key.revoked', id)
      return found(await apiKeys.revoke({ ...request, keyId: id }), call.action)
    },

    async rotate(organizationId, keyId, options) {
      const call = readRotate(organizationId, options, { keyId })
      const { keyId: previousId, id, overlapMs, ...chosen } = call.input
      const { key, generated } = generate(call.organizationId, id)
      const successor = { ...generated, ...chosen }
      const details = { successorId: successor.id, overlapMs }
      const request = audited(makeEntry, call, 'api_key.rotated', previousId, details)
      // Each key within the limit may have a successor during its overlap period.
      const limit = maxApiKeys * 2
      const rotation = await apiKeys.rotate({ ...request, keyId: previousId, successor, overlapMs, limit })
      return { key, ...rotatedKeys(call, found(rotation, call.action), limit) }
    },
  }
}

const TAKEN = 'id was used before: a key is shown once only; rotate the key of that id for another'

type GeneratedKey = Pick<ApiKeyRecord, 'id' | 'digest' | 'prefix' | 'lastFour' | 'createdAt'>

/** @throws `BusinessApiError` with code `already_exists`, `limit_reached` or `invalid_state` */
function rotatedKeys(
  { action }: Call<unknown>,
  rotation: ApiKeyRotation,
  limit: number,
): Omit<RotatedApiKey, 'key'> {
  const { outcome, key, previous } = rotation
  switch (outcome) {
    case 'rotated':
      return { ...key, previous }
    case 'already_exists':
      throw new BusinessApiError(ALREADY_EXISTS, `${action} because the new key's ${TAKEN}`, { record: key })
    case 'limit_reached':
      throw refused(
        action,
        LIMIT_REACHED,
        `the organization has ${limit} active keys, twice its limit, with the overlaps of rotations: rotate without overlap, or revoke a key`,
      )
    case 'refused':
      throw refused(action, INVALID_STATE, `the key ${obstacleOf(previous)}`)
  }
}

function obstacleOf({ revokedAt, successorId }: ApiKey): string {
  if (revokedAt !== null) return 'is revoked: create a new key'
  return successorId === null
    ? 'has expired: create a new key'
    : `has been rotated: rotate its successor ${successorId}`
}
