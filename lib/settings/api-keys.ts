import * as v from 'valibot'
import { type ApiKey, type ApiKeyRecord, digestApiKey, generateApiKey } from '../api-keys.ts'
import { BusinessApiError, INVALID_STATE } from '../errors.ts'
import * as field from '../fields.ts'
import type { Clock, Ids } from '../ids.ts'
import { found, IdSchema, moment, OrganizationIdSchema, read, withoutUndefined } from '../input.ts'
import { toTimestamp } from '../making.ts'
import type { RateLimit } from '../rate-limit.ts'
import { SCOPES, type Scope } from '../scopes.ts'
import type { BusinessStore } from '../store.ts'
import { type Acting, ActorSchema, type MakeEntry } from './audit.ts'
import { OVERLAP_MS, OverlapSchema } from './overlap.ts'
import { RateLimitSchema } from './rate-limits.ts'

// --- Types ---

/** What an administrator decides about a new API key. */
export interface NewApiKey extends Acting {
  /** 1 to 100 characters, for people. */
  readonly name: string
  /** At least one, each once. */
  readonly scopes: readonly Scope[]
  /** A moment to come, as a `Date` or as ISO 8601 with a time zone. Default null: never. */
  readonly expiresAt?: Date | string | null | undefined
  /** Instead of the API's limit for keys. Default null: that one. */
  readonly rateLimit?: RateLimit | null | undefined
}

/** A new key together with what is shown of it later. */
export interface CreatedApiKey extends ApiKey {
  /** The key itself, shown this once: no store keeps it and nothing can bring it back. */
  readonly key: string
}

/** Options of `rotate`. */
export interface RotateApiKeyOptions extends Acting {
  /** Milliseconds for which the key before stays in force too; 0: not at all. Default 24 hours, at most 30 days. */
  readonly overlapMs?: number | undefined
  /** As of a new key; null: never. Default when the key before would have expired. */
  readonly expiresAt?: Date | string | null | undefined
}

/** The key that replaces another one, shown this once as every new key is. */
export interface RotatedApiKey extends CreatedApiKey {
  /** The key before as it is now: it expires when the overlap ends, or has been revoked. */
  readonly previous: ApiKey
}

/** The API keys of organizations. */
export interface ApiKeySettings {
  /** Makes a key. Two calls make two keys. */
  create(organizationId: string, newKey: NewApiKey): Promise<CreatedApiKey>

  /** All keys of the organization, revoked and expired ones too, newest first. */
  list(organizationId: string): Promise<readonly ApiKey[]>

  /**
   * Revokes a key for the very next request, on any process. A key that was revoked before keeps that time.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no key of that id
   */
  revoke(organizationId: string, keyId: string, options?: Acting): Promise<ApiKey>

  /**
   * Makes a key with the name, the scopes and the rate limit of another one, which ends after the overlap, by the store's
   * clock, or when it would have expired anyway. A key is rotated once, also by two calls at the same time; from then on
   * it is its successor that can be.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no key of that id, `invalid_state` when it
   *   is revoked, has expired or has been rotated
   */
  rotate(organizationId: string, keyId: string, options?: RotateApiKeyOptions): Promise<RotatedApiKey>
}

// --- Inputs ---

/** From here on a year has five digits and timestamps another form. */
const YEAR_10000 = Date.UTC(10_000)

const scopesRequirement = `must be one or more of ${SCOPES.join(', ')}, each once`
const momentRequirement =
  'must be null, a Date, or ISO 8601 with a time zone, in the future and before the year 10000'

function createSchemas(clock: Clock) {
  const ExpirySchema = v.pipe(
    moment(momentRequirement),
    v.check((expiry) => expiry.getTime() > clock() && expiry.getTime() < YEAR_10000, momentRequirement),
    v.transform((expiry) => expiry.toISOString()),
  )
  const CreateSchema = v.object({
    organizationId: OrganizationIdSchema,
    name: field.text(1, 100),
    scopes: v.pipe(
      v.array(v.picklist(SCOPES, scopesRequirement), scopesRequirement),
      v.minLength(1, scopesRequirement),
      v.check((scopes) => new Set(scopes).size === scopes.length, scopesRequirement),
    ),
    expiresAt: v.nullish(ExpirySchema, null),
    rateLimit: v.nullish(RateLimitSchema, null),
    actor: ActorSchema,
  })
  const RotateSchema = v.object({
    ...RefSchema.entries,
    overlapMs: OverlapSchema,
    expiresAt: v.exactOptional(v.nullable(ExpirySchema)),
  })
  return { CreateSchema, RotateSchema }
}

const ListSchema = v.object({ organizationId: OrganizationIdSchema })
const RefSchema = v.object({ organizationId: OrganizationIdSchema, keyId: IdSchema, actor: ActorSchema })

// --- Calls ---

/** What API keys are managed with. */
export interface ApiKeyTools {
  readonly keyPrefix: string
  readonly ids: Ids
  readonly clock: Clock
  readonly makeEntry: MakeEntry
}

/** API keys as administrators manage them. */
export function createApiKeySettings(
  store: Pick<BusinessStore, 'apiKeys'>,
  { keyPrefix, ids, clock, makeEntry }: ApiKeyTools,
): ApiKeySettings {
  const { CreateSchema, RotateSchema } = createSchemas(clock)

  /** A new key, and what a store keeps of it whatever it may do. */
  function generate(): { key: string; kept: NewKey } {
    const key = generateApiKey(keyPrefix)
    const kept = {
      id: ids('key'),
      digest: digestApiKey(key),
      prefix: `${keyPrefix}_live_`,
      lastFour: key.slice(-4),
      createdAt: toTimestamp(clock()),
    }
    return { key, kept }
  }

  return {
    async create(organizationId, { name, scopes, expiresAt, rateLimit, actor }) {
      const given = { organizationId, name, scopes, expiresAt, rateLimit, actor }
      const {
        organizationId: owner,
        actor: who,
        ...chosen
      } = read(CreateSchema, given, 'Cannot create an API key')
      const { key, kept } = generate()
      const entry = makeEntry('api_key.created', kept.id, who, chosen)
      await store.apiKeys.insert(owner, { ...kept, ...chosen }, entry)
      const { digest: _, ...shown } = { ...kept, ...chosen }
      return { key, ...shown, revokedAt: null, successorId: null, lastUsedAt: null }
    },

    async list(organizationId) {
      const input = read(ListSchema, { organizationId }, 'Cannot list API keys')
      return store.apiKeys.list(input.organizationId)
    },

    async revoke(organizationId, keyId, { actor } = {}) {
      const action = 'Cannot revoke an API key'
      const {
        organizationId: owner,
        keyId: id,
        actor: who,
      } = read(RefSchema, { organizationId, keyId, actor }, action)
      return found(await store.apiKeys.revoke(owner, id, makeEntry('api_key.revoked', id, who)), action)
    },

    async rotate(organizationId, keyId, { overlapMs = OVERLAP_MS, expiresAt, actor } = {}) {
      const action = 'Cannot rotate an API key'
      const given = { organizationId, keyId, overlapMs, ...withoutUndefined({ expiresAt }), actor }
      const {
        organizationId: owner,
        keyId: id,
        overlapMs: overlap,
        actor: who,
        ...chosen
      } = read(RotateSchema, given, action)
      const { key, kept } = generate()
      const entry = makeEntry('api_key.rotated', id, who, { successorId: kept.id, overlapMs: overlap })
      const rotation = await store.apiKeys.rotate(owner, id, { ...kept, ...chosen }, overlap, entry)
      const { key: made, previous } = found(rotation, action)
      if (made !== null) return { key, ...made, previous }
      throw new BusinessApiError(INVALID_STATE, `${action} as it ${obstacleOf(previous)}`)
    },
  }
}

type NewKey = Pick<ApiKeyRecord, 'id' | 'digest' | 'prefix' | 'lastFour' | 'createdAt'>

function obstacleOf({ revokedAt, successorId }: ApiKey): string {
  if (revokedAt !== null) return 'is revoked'
  return successorId === null ? 'has expired' : 'has been rotated'
}
