import { randomUUID } from 'node:crypto'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type {
  AttemptResult,
  ClaimedDelivery,
  ClaimRef,
  ClaimRequest,
  Claims,
  EndpointHealth,
  FailureLimit,
} from '../../lib/webhooks/claims.ts'
import type { Delivery, DeliveryDetails, DeliveryFilter } from '../../lib/webhooks/deliveries.ts'
import type { EndpointRecord, WebhookEndpoint } from '../../lib/webhooks/endpoints.ts'
import { newEntry } from './audit-entry.ts'
import type { ContractTest, StoreUnderTest } from './harness.ts'
import { createTenant, type Tenant } from './tenant.ts'

// An organization that publishes, and what a delivery loop does.

/** Matches a timestamp in UTC with milliseconds. */
export const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
/** The lease of a claim in milliseconds. */
export const LEASE_MS = 60_000
/** A limit that never disables an endpoint. */
export const NEVER: FailureLimit = { failures: 1_000_000, failingMs: 1_000_000_000_000 }

/** Creates an organization that has no more deliveries to send after the test. */
export async function createPublisher(harness: StoreUnderTest, test: ContractTest): Promise<Tenant> {
  const tenant = await createTenant(harness)
  test.after(() => retire(tenant))
  return tenant
}

async function retire(tenant: Tenant): Promise<void> {
  const { store, id } = tenant
  // One after another, because concurrent calls would each open a connection.
  for (const endpoint of await store.endpoints.list(id))
    await store.endpoints.remove({ organizationId: id, endpointId: endpoint.id, entry: newEntry() })
  await claim(tenant, { capacity: NO_CAPACITY })
}

/** Publishes a number of events one after another and returns their ids. */
export async function publishMany(tenant: Tenant, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let event = 0; event < count; event++) ids.push((await tenant.publish()).id)
  return ids
}

// --- Claims ---

/** A delivery with the token of its claim. */
export interface Claimed extends ClaimedDelivery {
  readonly token: string
}

/** The deliveries of a claim and its token. */
export interface ClaimedSome extends Claims {
  readonly token: string
  readonly deliveries: readonly Claimed[]
  /** The event ids in the order of the deliveries. */
  readonly eventIds: readonly string[]
}

const NO_CAPACITY = { endpoint: 0, organization: 0, endpoints: {}, organizations: {} } as const

/** Returns the round-robin cursor directly before the organization's endpoints. */
export function beforeAllOf({ id }: Tenant): NonNullable<ClaimRequest['cursor']> {
  return { organizationId: id, endpointId: '' }
}

/** Claims due deliveries of the organization only. The claim scans this organization's endpoints first. */
export async function claim(
  tenant: Tenant,
  changes: Partial<ClaimRequest> = {},
  store: BusinessApiStore = tenant.store,
): Promise<ClaimedSome> {
  const request: ClaimRequest = {
    token: randomUUID(),
    isRepeat: false,
    limit: 100,
    maxBytes: 4 * 1024 * 1024,
    capacity: { ...NO_CAPACITY, endpoint: 100, organizations: { [tenant.id]: 100 } },
    scanLimit: 1000,
    cursor: beforeAllOf(tenant),
    leaseMs: LEASE_MS,
    maxAttempts: 5,
    ...changes,
  }
  const { token } = request
  const claims = await store.deliveries.claim(request)
  const deliveries = claims.deliveries.map((delivery) => ({ ...delivery, token }))
  return { ...claims, token, deliveries, eventIds: deliveries.map(({ eventId }) => eventId) }
}

/** Claims the only due delivery. */
export async function claimOne(tenant: Tenant, changes: Partial<ClaimRequest> = {}): Promise<Claimed> {
  const { deliveries } = await claim(tenant, changes)
  const [delivery, ...others] = deliveries
  if (!delivery || others.length > 0) throw new Error(`Not one delivery is due but ${deliveries.length}`)
  return delivery
}

/** Returns the default capacity for the organization's deliveries. */
export function capacityFor(
  tenant: Tenant,
  changes: Partial<ClaimRequest['capacity']>,
): ClaimRequest['capacity'] {
  return { ...NO_CAPACITY, endpoint: 100, organizations: { [tenant.id]: 100 }, ...changes }
}

/** Returns the time of the store's clock. Reclaims expired leases and does nothing else. */
export async function storeTime(tenant: Tenant): Promise<number> {
  return (await claim(tenant, { capacity: NO_CAPACITY, scanLimit: 1 })).storeTime
}

// --- Results ---

/** The fields that identify a claim. */
export type ClaimedName = Pick<Claimed, 'organizationId' | 'id' | 'token'>

/** Returns a reference to a claim. */
export function refOf({ organizationId, id, token }: ClaimedName): ClaimRef {
  return { organizationId, deliveryId: id, token }
}

/** Returns a success. */
export function success(delivery: ClaimedName, changes: Partial<AttemptResult> = {}): AttemptResult {
  return {
    ...refOf(delivery),
    outcome: 'delivered',
    reason: null,
    isGone: false,
    delayMs: 0,
    backOffMs: null,
    startedAgoMs: 30,
    endedAgoMs: 10,
    durationMs: 20,
    dnsMs: 1,
    connectMs: 2,
    tlsMs: 3,
    firstByteMs: 4,
    status: 204,
    error: null,
    bodyExcerpt: '',
    ...changes,
  }
}

/** Returns a failure that makes the delivery due again immediately. */
export function failure(delivery: ClaimedName, changes: Partial<AttemptResult> = {}): AttemptResult {
  return success(delivery, { outcome: 'retry', status: 500, bodyExcerpt: 'oops', ...changes })
}

/** Returns a failure after which there are no more attempts. */
export function lastFailure(delivery: ClaimedName, changes: Partial<AttemptResult> = {}): AttemptResult {
  return failure(delivery, { outcome: 'failed', reason: 'http_500', ...changes })
}

/** @returns the endpoints with a failed attempt */
export async function writeResults(
  { store }: Tenant,
  results: readonly AttemptResult[],
  limit: FailureLimit = NEVER,
): Promise<readonly EndpointHealth[]> {
  return (await store.deliveries.writeResults(results, limit)).endpoints
}

// --- Reading ---

/** Returns the organization's deliveries, newest first. */
export function deliveriesOf(
  { store, id }: Tenant,
  filter: DeliveryFilter = {},
): Promise<readonly Delivery[]> {
  return store.deliveries.list(id, filter, 1000, null)
}

/** Returns the organization's only delivery. */
export async function onlyDelivery(tenant: Tenant): Promise<DeliveryDetails> {
  const [delivery, ...others] = await deliveriesOf(tenant)
  if (!delivery || others.length > 0) throw new Error('There is not just one delivery')
  return getDelivery(tenant, delivery.id)
}

/** Returns an existing delivery. */
export async function getDelivery({ store, id }: Tenant, deliveryId: string): Promise<DeliveryDetails> {
  const delivery = await store.deliveries.get(id, deliveryId)
  if (delivery === null) throw new Error(`There is no delivery ${deliveryId}`)
  return delivery
}

/** Returns the organization's only endpoint. */
export async function onlyEndpoint({ store, id }: Tenant): Promise<WebhookEndpoint> {
  const [endpoint, ...others] = await store.endpoints.list(id)
  if (!endpoint || others.length > 0) throw new Error('There is not just one endpoint')
  return endpoint
}

/** Returns a new endpoint as shown by `endpoints.list`. */
export function shown({ sealedSecret: _, sealedHeaders: __, ...record }: EndpointRecord): WebhookEndpoint {
  return {
    ...record,
    version: 0,
    state: 'enabled',
    disabledReason: null,
    failingSince: null,
    failures: 0,
    previousSecretExpiresAt: null,
  }
}
