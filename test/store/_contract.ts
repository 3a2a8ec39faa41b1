import { describe } from 'node:test'
import type { RecordedEvent } from '../../lib/envelope.ts'
import type { BusinessStore } from '../../lib/store.ts'
import { testAdmission } from './_admission.ts'
import { testApiKeys } from './_api-keys.ts'
import { testCreations } from './_creations.ts'
import { testEndpoints } from './_endpoints.ts'
import { testIdempotency } from './_idempotency.ts'
import { testIsolation } from './_isolation.ts'
import { testLists } from './_lists.ts'
import { testPublishing } from './_publishing.ts'
import { testRaces } from './_races.ts'

// The contract of BusinessStore as one suite, run by every store: lib/store.ts and the resources' files in tests.

/**
 * What the suite needs of a store. Every test works in organizations of its own, named `org_contract_<n>`, so that one
 * store, starting empty, serves the whole suite. The tests run one after another.
 */
export interface StoreHarness {
  /**
   * The store to use for an organization, on whose behalf alone the suite will call it: under row level security each
   * organization has a pool of its own, otherwise it is the same store for all.
   */
  store(organizationId: string): BusinessStore | Promise<BusinessStore>
  /** Another store on the same data, as another process has one; the same store where there can be only one. */
  secondStore(organizationId: string): BusinessStore | Promise<BusinessStore>
  /** The recorded events of an organization, oldest id first, with `createdAt` in UTC with milliseconds. */
  events(organizationId: string): readonly RecordedEvent[] | Promise<readonly RecordedEvent[]>
  /**
   * Makes the store judge an organization as it will in `ms` milliseconds: either its clock goes on, or everything that
   * it compares with its clock goes back (`expires_at` of idempotency entries and of API keys, `last_used_at`, the times
   * of the rate buckets; when deliveries are due and were claimed, and until when; when an endpoint began to fail and its
   * secret of before ends). Nothing else may change, and other organizations may go along or not.
   */
  letTimePass(organizationId: string, ms: number): void | Promise<void>
}

/**
 * Registers the suite.
 *
 * @param name whose tests they are: `memory`
 */
export function describeStore(name: string, harness: StoreHarness): void {
  describe(`${name} store`, () => {
    describe('lists', () => testLists(harness))
    describe('creations', () => testCreations(harness))
    describe('idempotency', () => testIdempotency(harness))
    describe('admission', () => testAdmission(harness))
    describe('API keys', () => testApiKeys(harness))
    describe('tenant isolation', () => testIsolation(harness))
    describe('endpoints', () => testEndpoints(harness))
    describe('publishing', () => testPublishing(harness))
    describe('races', () => testRaces(harness))
  })
}
