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

// Longer than 250 lines: half are the documentation of the calls and their types, which hosts read as a whole.

// --- Types ---

/** An administrator's decisions about a new API key. */
export interface NewApiKey<Scopes extends string = Scope> extends Acting {
  /**
   * The id of the key that the call makes, `key_<ulid>`: the same call sent again makes no second key. Default a new
   * id.
   */
  readonly id?: string
  /** 1 to 100 characters, for people. */
  readonly name: string
  /** One scope at least, each scope once. */
  readonly scopes: readonly Scopes[]
  /** A moment in the future, as a `Date` or as ISO 8601 with a time zone. Default null: never. */
  readonly expiresAt?: Date | string | null
  /** The rate limit of this key. Default null: the API's limit for keys. */
  readonly rateLimit?: RateLimit | null
}

/** A key of the host's earlier API: `digest` is SHA-256 of the whole key in hex, `prefix` at most 24 characters, may be empty. */
export interface ImportedApiKey<Scopes extends string = Scope>
  extends NewApiKey<Scopes>,
    Pick<ApiKeyRecord, 'digest' | 'prefix' | 'lastFour'> {}

/** A new key, with the facts that later calls show. */
export interface CreatedApiKey extends ApiKey {
  /** The key itself, shown only now: no store keeps the key, and no call can show the key again. */
  readonly key: string
}

/** Changes of an API key. The scopes stay for good: a key that may do something else is another key. */
export interface ApiKeyUpdate extends Acting {
  /** 1 to 100 characters, for people. */
  readonly name: string
  /** The name that the caller has seen: if it is another by now, nothing is changed, with `invalid_state`. Default: not compared. */
  readonly replaces?: string | undefined
}

/** Options of `rotate`. */
export interface RotateApiKeyOptions extends Acting {
  /** The id of the successor, as for a new key. */
  readonly id?: string
  /**
   * Milliseconds for which the previous key stays active too; 0: the previous key is revoked. Default 24 hours, at
   * most 30 days.
   */
  readonly overlapMs?: number
  /** As for a new key; null: never. Default: the expiry of the previous key. */
  readonly expiresAt?: Date | string | null
}

/** A key that replaces another key, shown only now like every new key. */
export interface RotatedApiKey extends CreatedApiKey {
  /** The present state of the previous key: revoked, or active until the overlap ends. */
  readonly previous: ApiKey
}

/** The API keys of organizations. @typeParam Scopes the names of the service's scopes */
export interface ApiKeySettings<Scopes extends string = Scope> {
  /**
   * Makes a key. Two calls make two keys, unless they have the same `id`.
   *
   * @throws `BusinessApiError` with code `already_exists` when the id was used before: the error's `record` is the
   *   present state of that key, as `get` gives it, without the key itself; `limit_reached` when the organization has
   *   as many keys active as `maxApiKeys` allows
   */
  create(organizationId: string, newKey: NewApiKey<Scopes>): Promise<CreatedApiKey>

  /**
   * Takes over a key of the host's earlier API, which works as it is and cannot be shown.
   *
   * @throws `BusinessApiError` with code `already_exists` when the id was used before, or a key of any organization has the digest: one
   *   error, without a `record`; `limit_reached` as for `create`; `TypeError` without `importedKeys` of the service
   */
  import(organizationId: string, key: ImportedApiKey<Scopes>): Promise<ApiKey>

  /**
   * Gives a key, also a revoked or expired one.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no key with this id
   */
  get(organizationId: string, keyId: string): Promise<ApiKey>

  /** All keys of the organization, revoked and expired ones too, newest first. */
  list(organizationId: string): Promise<readonly ApiKey[]>

  /**
   * Gives a key another name, also a revoked or expired one.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no key with this id
   */
  update(organizationId: string, keyId: string, update: ApiKeyUpdate): Promise<ApiKey>

  /**
   * Revokes a key for the very next request, on any process. A key that was revoked before keeps that time.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no key with this id
   */
  revoke(organizationId: string, keyId: string, options?: Acting): Promise<ApiKey>

  /**
   * Makes a key with the name, the scopes and the rate limit of another key. The previous key ends after the overlap,
   * by the store's clock, or at its own expiry, if that is earlier. A key is rotated once, also by two calls at the
   * same time; afterwards rotate the successor.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no key with this id, `invalid_state` when
   *   the key is revoked, has expired or has been rotated; `already_exists` when the successor's id was used before, as
   *   for `create`; `limit_reached` when rotation overlaps have doubled the number of active keys that `maxApiKeys` allows
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

/** The parts with which API keys are managed. */
export interface ApiKeyTools extends ScopeOwner {
  readonly keyPrefix: string
  readonly importedKeys?: object | undefined
  readonly maxApiKeys: number
  readonly ids: Ids
  readonly clock: Clock
  readonly makeEntry: MakeEntry
}

/** Creates the calls about API keys. */
export function createApiKeySettings(
  { apiKeys }: Pick<BusinessApiStore, 'apiKeys'>,
  { keyPrefix, importedKeys, scopes, maxApiKeys, ids, clock, makeEntry }: ApiKeyTools,
): ApiKeySettings<string> {
  const { readCreate, readImport, readGet, readList, readUpdate, readRevoke, readRotate } = defineCalls(
    clock,
    scopesOf({ scopes }),
  )

  /** A new key, and the part of its record that does not depend on the call. */
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
      // Each key that the bound allows may have a successor in its overlap.
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
