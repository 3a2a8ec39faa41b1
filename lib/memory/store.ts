import type { Clock } from '../base/ids.ts'
import { readFunction, readWhole, rejectUnknown } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { readService, type Service } from '../service.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { createApiKeyStore } from './api-keys.ts'
import { createAuditStore } from './audit.ts'
import { createBackfillStore } from './backfills.ts'
import { createBusinessRecordStore } from './businesses.ts'
import { createClientStore } from './clients.ts'
import { createDeliveryStore } from './deliveries.ts'
import { createEndpointStore } from './endpoints.ts'
import { createEventLogStore } from './event-log.ts'
import { createEventStore } from './events.ts'
import { createImportStore } from './imports.ts'
import { createInvoiceStore } from './invoices.ts'
import { createLeadStore } from './leads.ts'
import { createNoticeStore } from './notices.ts'
import { createOrganizationStore } from './organizations.ts'
import { createPlainStores } from './plain-records.ts'
import { createProposalStore } from './proposals.ts'
import { createRequestLogStore } from './request-log.ts'
import { createMemory } from './state.ts'

/** Options for `createMemoryStore`. */
export interface MemoryStoreOptions<Own extends Service = Service> {
  /** Returns milliseconds since 1970. Used for expiry, revocation, limits and due times. Defaults to `Date.now`. */
  clock?: Clock | undefined
  /** Maximum event body size in bytes. Defaults to 262,144. */
  maxEventBytes?: number | undefined
  /** The service. See `defineService(…)`. Must be the same in all processes. Defaults to the default names. */
  service?: Own | undefined
}

/** A store that loses its data when the process ends. @typeParam Own the service's type, `typeof service` */
export interface MemoryStore<Own extends Service = Service> extends BusinessApiStore {
  readonly service: Own
  /** Returns all of an organization's events that haven't been purged, oldest first. */
  recordedEvents(organizationId: string): readonly EventRecord[]
}

/**
 * Creates an in-memory store. Use it in tests, or read the code, which is the shortest implementation of {@link
 * BusinessApiStore}. Methods run one at a time, so every call is atomic and the outcome is never `in_progress`.
 *
 * @example
 * ```ts
 * const clock = createFakeClock()
 * const store = createMemoryStore({ clock })
 * const platform = createPlatform(store, { clock })
 * ```
 */
export function createMemoryStore<Own extends Service = Service>(
  options: MemoryStoreOptions<Own> = {},
): MemoryStore<Own> {
  rejectUnknown(options, { clock: true, maxEventBytes: true, service: true })
  const clock = readFunction('clock', options.clock) ?? Date.now
  const maxEventBytes = readWhole('maxEventBytes', options.maxEventBytes, 256 * 1024)
  const memory = createMemory(clock, maxEventBytes)
  return {
    service: readService(options.service) as Service as Own,
    ...createPlainStores(memory),
    apiKeys: createApiKeyStore(memory),
    businesses: createBusinessRecordStore(memory),
    clients: createClientStore(memory),
    leads: createLeadStore(memory),
    invoices: createInvoiceStore(memory),
    proposals: createProposalStore(memory),
    events: createEventStore(memory),
    imports: createImportStore(memory),
    endpoints: createEndpointStore(memory),
    deliveries: createDeliveryStore(memory),
    notices: createNoticeStore(memory),
    audit: createAuditStore(memory),
    requests: createRequestLogStore(memory),
    organizations: createOrganizationStore(memory),
    backfills: createBackfillStore(memory),
    eventLog: createEventLogStore(memory),
    recordedEvents: (organizationId) =>
      [...memory.organization(organizationId).events.values()].map(({ record }) => record),
  }
}
