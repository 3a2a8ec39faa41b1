import type { ApiKeyRecord } from '../api-keys.ts'
import type { Business } from '../businesses.ts'
import type { Client } from '../clients.ts'
import type { RecordedEvent } from '../envelope.ts'
import type { Clock } from '../ids.ts'
import type { Invoice } from '../invoices.ts'
import type { LeadRecord } from '../leads.ts'
import type { Project } from '../projects.ts'
import type { Proposal } from '../proposals.ts'
import type { RateLimit } from '../rate-limit.ts'

/** An API key with what has happened to it. */
export interface KeptApiKey {
  readonly record: ApiKeyRecord
  revokedAt: string | null
  lastUsedAt: string | null
  /** When the key's own bucket will be full again, in milliseconds of the store's clock. */
  bucketFullAt: number
}

/** What was answered under an idempotency key. */
export interface IdempotencyEntry {
  readonly fingerprint: string
  /** Lets an attempt whose answer was lost recognize its own entry. */
  readonly recordId: string
  readonly reply: string
  /** In milliseconds of the store's clock. */
  readonly expiresAt: number
}

/** Everything of one organization, by id. Whoever holds this can reach no other organization. */
export interface Organization {
  readonly id: string
  readonly apiKeys: Map<string, KeptApiKey>
  readonly businesses: Map<string, Business>
  readonly clients: Map<string, Client>
  readonly leads: Map<string, LeadRecord>
  readonly invoices: Map<string, Invoice>
  readonly proposals: Map<string, Proposal>
  readonly projects: Map<string, Project>
  /** By operation and key: see `creation.ts`. */
  readonly idempotency: Map<string, IdempotencyEntry>
  /** In the order in which they were recorded. */
  readonly events: Map<string, RecordedEvent>
  /** Instead of the API's limit for organizations; null for that one. */
  rateLimit: RateLimit | null
  /** When the organization's bucket will be full again, in milliseconds of the store's clock. */
  bucketFullAt: number
}

/** The state behind all slices of one store. */
export interface Memory {
  readonly clock: Clock
  /** The organization of that id, empty when nothing was ever written for it. */
  organization(id: string): Organization
  /** Whose key has a digest: the one look-up that cannot begin with the organization. */
  readonly digests: Map<string, { readonly organization: Organization; readonly key: KeptApiKey }>
}

/** A state without organizations. */
export function createMemory(clock: Clock): Memory {
  const organizations = new Map<string, Organization>()
  return {
    clock,
    digests: new Map(),
    organization(id) {
      const organization = organizations.get(id) ?? createOrganization(id)
      organizations.set(id, organization)
      return organization
    },
  }
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
    projects: new Map(),
    idempotency: new Map(),
    events: new Map(),
    rateLimit: null,
    bucketFullAt: 0,
  }
}
