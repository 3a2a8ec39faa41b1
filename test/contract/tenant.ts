import { randomBytes } from 'node:crypto'
import type { AdmissionRequest } from '../../lib/access/admission.ts'
import {
  type ApiKeyRecord,
  type ApiKeySuccessor,
  digestApiKey,
  generateApiKey,
} from '../../lib/access/api-keys.ts'
import { SCOPES } from '../../lib/access/scopes.ts'
import { createIds } from '../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import type { EndpointRecord } from '../../lib/webhooks/endpoints.ts'
import type { KeyReservation } from '../../lib/writes/creation.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { businessOf } from '../_business.ts'
import { newEntry } from './audit-entry.ts'
import type { StoreUnderTest } from './harness.ts'

// An organization for tests and its records.

/** Generates the ids used by the suite. */
export const ids: ReturnType<typeof createIds> = createIds()

/** A new organization with a key for all scopes, and the two stores to call. */
export interface Tenant {
  readonly id: string
  readonly store: BusinessApiStore
  readonly secondStore: BusinessApiStore
  readonly key: ApiKeyRecord
  insertKey(changes?: Partial<ApiKeyRecord>): Promise<ApiKeyRecord>
  /** Creates a client and returns the id of its business. */
  insertBusiness(): Promise<string>
  /** Inserts a webhook endpoint, by default for all types. */
  insertEndpoint(changes?: Partial<EndpointRecord>): Promise<EndpointRecord>
  /** Publishes an event, by default of type `client.created`. */
  publish(changes?: Partial<EventRecord>): Promise<EventRecord>
  events(): Promise<readonly EventRecord[]>
  letTimePass(ms: number): Promise<void>
}

let organizations = 0

/** Creates a new organization with a key. */
export async function createTenant(harness: StoreUnderTest): Promise<Tenant> {
  organizations++
  const id = `org_contract_${organizations}`
  const store = await harness.store(id)
  const key = newKey()
  await store.apiKeys.insert({ organizationId: id, limit: 1000, key, entry: newEntry() })
  return {
    id,
    store,
    secondStore: await harness.secondStore(id),
    key,
    async insertKey(changes) {
      const another = newKey(changes)
      await store.apiKeys.insert({ organizationId: id, limit: 1000, key: another, entry: newEntry() })
      return another
    },
    insertBusiness: () => insertBusiness(store, id),
    async insertEndpoint(changes) {
      const endpoint = newEndpoint(changes)
      await store.endpoints.insert({ organizationId: id, limit: 1000, endpoint, entry: newEntry() })
      return endpoint
    },
    async publish(changes) {
      const event = newEvent(changes)
      await store.events.publish(id, event)
      return event
    },
    events: async () => harness.events(id),
    letTimePass: async (ms) => harness.letTimePass(id, ms),
  }
}

/** Makes ten concurrent calls from two processes. */
export async function callAtOnce<T>(
  { id, store, secondStore }: Tenant,
  call: (store: BusinessApiStore) => Promise<T>,
): Promise<readonly T[]> {
  const stores = Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? store : secondStore))
  // Open the connections first, so that the calls really run concurrently.
  await Promise.all(stores.map(({ apiKeys }) => apiKeys.list(id)))
  return Promise.all(stores.map(call))
}

/** Returns a key for all scopes. */
export function newKey(changes: Partial<ApiKeyRecord> = {}): ApiKeyRecord {
  const key = generateApiKey('bapi', 0)
  return {
    id: ids('key'),
    name: 'Test',
    scopes: SCOPES,
    prefix: 'bapi_live_',
    lastFour: key.slice(-4),
    rateLimit: null,
    createdAt: toTimestamp(Date.now()),
    expiresAt: null,
    digest: digestApiKey(key),
    ...changes,
  }
}

/** Returns the successor of a key. */
export function newSuccessor(changes: Partial<ApiKeySuccessor> = {}): ApiKeySuccessor {
  const { id, digest, prefix, lastFour, createdAt } = newKey()
  return { id, digest, prefix, lastFour, createdAt, ...changes }
}

async function insertBusiness(store: BusinessApiStore, organizationId: string): Promise<string> {
  const business = businessOf({ id: ids('biz') })
  const record = {
    id: ids('cli'),
    status: 'active',
    totalRevenue: 0,
    monthlyRevenue: 0,
    convertedAt: toTimestamp(Date.now()),
    business,
  }
  await store.clients.create({ organizationId, record, events: [], idempotency: null })
  return business.id
}

/** Returns a request that takes no token. */
export function requestOf(
  key: Pick<ApiKeyRecord, 'digest'>,
  changes: Partial<AdmissionRequest> = {},
): AdmissionRequest {
  return { keyDigest: key.digest, scope: 'clients:read', rateLimits: null, ...changes }
}

/** A key that doesn't exist. */
export const UNKNOWN_KEY = { digest: digestApiKey('nobody has this key') }

/** Returns events in order, whose bodies are easily corrupted unless they are handled as bytes. */
export function events(count: number): EventRecord[] {
  return Array.from({ length: count }, (_, index) =>
    newEvent({ type: index % 2 === 0 ? 'business.created' : 'client.created' }),
  )
}

/** Returns an event whose body is easily corrupted unless it is handled as bytes. */
export function newEvent(changes: Partial<EventRecord> = {}): EventRecord {
  const id = ids('evt')
  const body = `{ "id":"${id}",  "data":{"n":1.0,"text":"\\u00e9 é 🏺 \\" \\\\ \\n","again":1,"again":2}}`
  return { id, type: 'client.created', body, ...changes }
}

/** Returns an endpoint for all types. */
export function newEndpoint(changes: Partial<EndpointRecord> = {}): EndpointRecord {
  const id = ids('we')
  return {
    id,
    url: `https://subscriber.example/${id}`,
    ...ENDPOINT_DEFAULTS,
    headerNames: [],
    sealedHeaders: null,
    createdAt: toTimestamp(Date.now()),
    sealedSecret: `sealed of ${id}`,
    ...changes,
  }
}

/** The window of idempotency keys in milliseconds. */
export const WEEK_MS: number = 7 * 24 * 60 * 60 * 1000

/** Reserves a new key, with a reply that no record could produce. */
export function claim(changes: Partial<KeyReservation> = {}): KeyReservation {
  const unique = randomBytes(6).toString('hex')
  return {
    operation: 'POST /api/v1/clients',
    key: `form-${unique}`,
    fingerprint: 'f'.repeat(64),
    reply: `{ "data":  {"made":"by ${unique}","odd":"\\u00e9 é 🏺 \\" \\\\ \\n","n":1.0} }`,
    windowMs: WEEK_MS,
    waitMs: 4000,
    ...changes,
  }
}
