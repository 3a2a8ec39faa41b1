import type { ApiKeyRecord } from '../access/api-keys.ts'
import type { AuditEntry } from '../access/audit.ts'
import type { RateLimit } from '../access/rate-limit.ts'
import { type Clock, createIds, type Ids } from '../base/ids.ts'
import type { Business } from '../resources/businesses.ts'
import type { Client } from '../resources/clients.ts'
import type { Invoice, Payment } from '../resources/invoices.ts'
import type { LeadRecord } from '../resources/leads.ts'
import type { Project } from '../resources/projects.ts'
import type { Proposal, ProposalSignature } from '../resources/proposals.ts'
import type { DeliveryAttempt, DeliveryState } from '../webhooks/deliveries.ts'
import type { EndpointRecord, EndpointState } from '../webhooks/endpoints.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { createWakeUpSignal, type WakeUpSignal } from './wake-up-signal.ts'

// Moments are in milliseconds of the store's clock, and timestamps where they came with the record.

/** An API key with what has happened to it. */
export interface KeptApiKey {
  /** Replaced as a whole when something of it changes. */
  record: ApiKeyRecord
  revokedAt: string | null
  successorId: string | null
  lastUsedAt: string | null
  /** When the key's own bucket will be full again. */
  bucketFullAt: number
}

/** A proposal with what the API does not show of it. */
export interface KeptProposal extends Proposal {
  /** Of its currency. */
  readonly decimals: number
}

/** What was answered under an idempotency key. */
export interface IdempotencyEntry {
  readonly fingerprint: string
  /** Lets an attempt whose answer was lost recognize its own entry. */
  readonly recordId: string
  readonly reply: string
  readonly expiresAt: number
}

/** A webhook endpoint with what has happened to it. */
export interface KeptEndpoint {
  readonly organizationId: string
  /** Replaced as a whole when something of it changes. */
  record: EndpointRecord
  state: EndpointState
  disabledReason: string | null
  failures: number
  failingSince: number | null
  /** The attempt whose result has made it failing or disabled it, so that the answer can be given again. */
  noticedAttempt: string | null
  previousSecret: { readonly sealed: string; readonly expiresAt: number } | null
  /** It is kept for the log of its deliveries only. */
  isRemoved: boolean
  /** Those of its deliveries that wait, so that no claim has to look through all that were ever made. */
  readonly pending: Set<KeptDelivery>
}

/** An event with its way to each endpoint that it goes to. */
export interface KeptEvent {
  readonly record: EventRecord
  readonly deliveries: readonly KeptDelivery[]
}

/** A delivery with its log. */
export interface KeptDelivery extends Readonly<DeliveryProgress> {
  readonly id: string
  readonly event: EventRecord
  readonly endpoint: KeptEndpoint
  readonly createdAt: number
  readonly attemptLog: DeliveryAttempt[]
}

/** What of a delivery changes: see {@link Memory.move}. */
export interface DeliveryProgress {
  state: DeliveryState
  dueAt: number
  /** Of all rounds, counted when claimed. */
  attempts: number
  /** Those of earlier rounds. */
  attemptsBefore: number
  reason: string | null
  finishedAt: number | null
  /** Whose it is while it is in flight, else null. */
  claim: { readonly token: string; readonly claimedAt: number; readonly leaseUntil: number } | null
}

/** Everything of one organization, by id. Whoever holds this can reach no other organization. */
export interface Organization {
  readonly id: string
  readonly apiKeys: Map<string, KeptApiKey>
  readonly businesses: Map<string, Business>
  readonly clients: Map<string, Client>
  readonly leads: Map<string, LeadRecord>
  readonly invoices: Map<string, Invoice>
  readonly proposals: Map<string, KeptProposal>
  readonly signatures: Map<string, ProposalSignature>
  readonly payments: Map<string, Payment & { readonly invoiceId: string }>
  /** Which client a business has become. */
  readonly clientsOfBusinesses: Map<string, string>
  /** The last number given in each series. */
  readonly numbers: Map<string, number>
  /** The changes of a record, so that an attempt whose answer was lost is known. */
  readonly changes: Map<string, Set<string>>
  readonly projects: Map<string, Project>
  /** By operation and key: see `creation.ts`. */
  readonly idempotency: Map<string, IdempotencyEntry>
  /** In the order in which they were recorded. */
  readonly events: Map<string, KeptEvent>
  readonly endpoints: Map<string, KeptEndpoint>
  readonly deliveries: Map<string, KeptDelivery>
  readonly audit: Map<string, AuditEntry>
  /** Instead of the API's limit for organizations; null for that one. */
  rateLimit: RateLimit | null
  /** When the organization's bucket will be full again. */
  bucketFullAt: number
  /** When the bucket of its tests will be full again. */
  testsFullAt: number
}

/** The state behind all slices of one store. */
export interface Memory {
  readonly clock: Clock
  /** For what the store itself makes. */
  readonly ids: Ids
  /** The greatest size of an event's body. */
  readonly maxEventBytes: number
  /** The organization of that id, empty when nothing was ever written for it. */
  organization(id: string): Organization
  organizations(): Iterable<Organization>
  /** Whose key has a digest: the one look-up that cannot begin with the organization. */
  readonly digests: Map<string, { readonly organization: Organization; readonly key: KeptApiKey }>
  /** Of all organizations, in the order in which they were claimed. */
  readonly inFlight: Set<KeptDelivery>
  /** Changes a delivery, and keeps it where its state says: with its endpoint's pending ones, in flight, or neither. */
  move(delivery: KeptDelivery, changes: Partial<DeliveryProgress>): void
  readonly wakeUp: WakeUpSignal
}

/** A state without organizations. */
export function createMemory(clock: Clock, maxEventBytes: number): Memory {
  const organizations = new Map<string, Organization>()
  const inFlight = new Set<KeptDelivery>()
  return {
    clock,
    ids: createIds(clock),
    maxEventBytes,
    organization(id) {
      const organization = organizations.get(id) ?? createOrganization(id)
      organizations.set(id, organization)
      return organization
    },
    organizations: () => organizations.values(),
    digests: new Map(),
    inFlight,
    move(delivery, changes) {
      Object.assign(delivery, changes)
      keepWhen(delivery.state === 'pending', delivery.endpoint.pending, delivery)
      keepWhen(delivery.state === 'in_flight', inFlight, delivery)
    },
    wakeUp: createWakeUpSignal(),
  }
}

function keepWhen<T>(isKept: boolean, kept: Set<T>, item: T): void {
  if (isKept) kept.add(item)
  else kept.delete(item)
}

function createOrganization(id: string): Organization {
  return {
    id,
    apiKeys: new Map(),
    businesses: new Map(),
    clients: new Map(),
    leads: new Map(),
    invoices: new Map(),
    proposals: new Map(),
    signatures: new Map(),
    payments: new Map(),
    clientsOfBusinesses: new Map(),
    numbers: new Map(),
    changes: new Map(),
    projects: new Map(),
    idempotency: new Map(),
    events: new Map(),
    endpoints: new Map(),
    deliveries: new Map(),
    audit: new Map(),
    rateLimit: null,
    bucketFullAt: 0,
    testsFullAt: 0,
  }
}
