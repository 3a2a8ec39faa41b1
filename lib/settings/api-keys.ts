import * as v from 'valibot'
import { type ApiKey, digestApiKey, generateApiKey } from '../api-keys.ts'
import * as field from '../fields.ts'
import type { Clock, Ids } from '../ids.ts'
import { found, IdSchema, moment, OrganizationIdSchema, read } from '../input.ts'
import { toTimestamp } from '../making.ts'
import type { RateLimit } from '../rate-limit.ts'
import { SCOPES, type Scope } from '../scopes.ts'
import type { BusinessStore } from '../store.ts'
import { RateLimitSchema } from './rate-limits.ts'

// --- Types ---

/** What an administrator decides about a new API key. */
export interface NewApiKey {
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

/** The API keys of organizations. */
export interface ApiKeySettings {
  /** Makes a key. Two calls make two keys, as rotation needs: the old one stays in force until it is revoked. */
  create(organizationId: string, newKey: NewApiKey): Promise<CreatedApiKey>

  /** All keys of the organization, revoked and expired ones too, newest first. */
  list(organizationId: string): Promise<readonly ApiKey[]>

  /**
   * Revokes a key for the very next request, on any process. A key that was revoked before keeps that time.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no key of that id
   */
  revoke(organizationId: string, keyId: string): Promise<ApiKey>
}

// --- Inputs ---

/** From here on a year has five digits and timestamps another form. */
const YEAR_10000 = Date.UTC(10_000)

const scopesRequirement = `must be one or more of ${SCOPES.join(', ')}, each once`
const momentRequirement =
  'must be null, a Date, or ISO 8601 with a time zone, in the future and before the year 10000'

function createSchema(clock: Clock) {
  return v.object({
    organizationId: OrganizationIdSchema,
    name: field.text(1, 100),
    scopes: v.pipe(
      v.array(v.picklist(SCOPES, scopesRequirement), scopesRequirement),
      v.minLength(1, scopesRequirement),
      v.check((scopes) => new Set(scopes).size === scopes.length, scopesRequirement),
    ),
    expiresAt: v.nullish(
      v.pipe(
        moment(momentRequirement),
        v.check((expiry) => expiry.getTime() > clock() && expiry.getTime() < YEAR_10000, momentRequirement),
        v.transform((expiry) => expiry.toISOString()),
      ),
      null,
    ),
    rateLimit: v.nullish(RateLimitSchema, null),
  })
}

const ListSchema = v.object({ organizationId: OrganizationIdSchema })
const RevokeSchema = v.object({ organizationId: OrganizationIdSchema, keyId: IdSchema })

// --- Calls ---

/** API keys as administrators manage them. */
export function createApiKeySettings(
  store: Pick<BusinessStore, 'apiKeys'>,
  keyPrefix: string,
  { ids, clock }: { readonly ids: Ids; readonly clock: Clock },
): ApiKeySettings {
  const CreateSchema = createSchema(clock)

  return {
    async create(organizationId, { name, scopes, expiresAt, rateLimit }) {
      const given = { organizationId, name, scopes, expiresAt, rateLimit }
      const input = read(CreateSchema, given, 'Cannot create an API key')
      const key = generateApiKey(keyPrefix)
      const shown = {
        id: ids('key'),
        name: input.name,
        scopes: input.scopes,
        prefix: `${keyPrefix}_live_`,
        lastFour: key.slice(-4),
        rateLimit: input.rateLimit,
        createdAt: toTimestamp(clock()),
        expiresAt: input.expiresAt,
      }
      await store.apiKeys.insert(input.organizationId, { ...shown, digest: digestApiKey(key) })
      return { key, ...shown, revokedAt: null, lastUsedAt: null }
    },

    async list(organizationId) {
      const input = read(ListSchema, { organizationId }, 'Cannot list API keys')
      return store.apiKeys.list(input.organizationId)
    },

    async revoke(organizationId, keyId) {
      const input = read(RevokeSchema, { organizationId, keyId }, 'Cannot revoke an API key')
      return found(await store.apiKeys.revoke(input.organizationId, input.keyId), 'Cannot revoke an API key')
    },
  }
}
