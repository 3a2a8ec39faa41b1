import { describe } from 'node:test'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { testAdmission } from './_admission.ts'
import { testApiKeys } from './_api-keys.ts'
import { testAttempts } from './_attempts.ts'
import { testAudit } from './_audit.ts'
import { testBacklog } from './_backlog.ts'
import { testCancellations } from './_cancellations.ts'
import { testChanges } from './_changes.ts'
import { testChangesIdempotency } from './_changes-idempotency.ts'
import { testRepeatedChanges } from './_changes-repeated.ts'
import { testRules } from './_changes-rules.ts'
import { testClaimBytes } from './_claim-bytes.ts'
import { testClaims } from './_claims.ts'
import { testConversions } from './_conversions.ts'
import { testCreations } from './_creations.ts'
import { testDeliveries } from './_deliveries.ts'
import { testEndpoints } from './_endpoints.ts'
import { testHealth } from './_health.ts'
import { testIdempotency } from './_idempotency.ts'
import { testInsertions } from './_insertions.ts'
import { testIsolation } from './_isolation.ts'
import { testLeases } from './_leases.ts'
import { testLists } from './_lists.ts'
import { testNews } from './_news.ts'
import { testNotices } from './_notices.ts'
import { testNumbers } from './_numbers.ts'
import { testOverdue } from './_overdue.ts'
import { testOverview } from './_overview.ts'
import { testPayments } from './_payments.ts'
import { testPublishing } from './_publishing.ts'
import { testPurge } from './_purge.ts'
import { testRaces } from './_races.ts'
import { testRecoveries } from './_recoveries.ts'
import { testRepeats } from './_repeats.ts'
import { testResealing } from './_resealing.ts'
import { testRotations } from './_rotations.ts'
import { testRoundRobin } from './_round-robin.ts'
import { testSigningSecrets } from './_signing-secrets.ts'
import { testWebhookIsolation } from './_webhook-isolation.ts'

// The contract of BusinessApiStore as one suite, run by every store: lib/business-store.ts and the resources' files in tests.

/**
 * The parts that the suite needs beside a store. Every test works in new organizations, named `org_contract_<n>`, so that a
 * single store, empty at the start, serves the whole suite. The tests run one after another.
 */
export interface StoreHarness {
  /**
   * Returns the store for the calls on behalf of an organization: under row level security a store with a pool of that
   * organization, otherwise the same store for all.
   */
  store(organizationId: string): BusinessApiStore | Promise<BusinessApiStore>
  /** Returns another store on the same data, as in another process; the same store where there can be only one. */
  secondStore(organizationId: string): BusinessApiStore | Promise<BusinessApiStore>
  /** The recorded events of an organization, oldest id first, with `createdAt` in UTC with milliseconds. */
  events(organizationId: string): readonly EventRecord[] | Promise<readonly EventRecord[]>
  /**
   * Makes the store judge an organization as `ms` milliseconds later: either the store's clock goes on, or every compared time
   * goes back (`expires_at` of idempotency entries and of API keys, `last_used_at`, the times of the rate buckets; the times at
   * which deliveries are due, were claimed, and end their lease; the time at which an endpoint began to fail, and at which its
   * previous secret ends; the expiry in notices). Nothing else may change, and other organizations may go along or not.
   */
  letTimePass(organizationId: string, ms: number): void | Promise<void>
}

/**
 * Registers the suite.
 *
 * @param name of the store: `memory`
 */
export function describeStore(name: string, harness: StoreHarness): void {
  describe(`${name} store`, () => {
    describe('lists', () => testLists(harness))
    describe('creations', () => testCreations(harness))
    describe('idempotency', () => testIdempotency(harness))
    describe('changes', () => testChanges(harness))
    describe('rules of changes', () => testRules(harness))
    describe('repeated changes', () => testRepeatedChanges(harness))
    describe('idempotency of changes', () => testChangesIdempotency(harness))
    describe('payments', () => testPayments(harness))
    describe('overdue invoices', () => testOverdue(harness))
    describe('numbers', () => testNumbers(harness))
    describe('conversions', () => testConversions(harness))
    describe('admission', () => testAdmission(harness))
    describe('API keys', () => testApiKeys(harness))
    describe('rotations of API keys', () => testRotations(harness))
    describe('insertions of keys and endpoints', () => testInsertions(harness))
    describe('tenant isolation', () => testIsolation(harness))
    describe('endpoints', () => testEndpoints(harness))
    describe('signing secrets', () => testSigningSecrets(harness))
    describe('sealed credentials', () => testResealing(harness))
    describe('publishing', () => testPublishing(harness))
    describe('claims', () => testClaims(harness))
    describe('claims by bytes', () => testClaimBytes(harness))
    describe('the round robin of endpoints', () => testRoundRobin(harness))
    describe('repeated claims', () => testRepeats(harness))
    describe('leases', () => testLeases(harness))
    describe('attempts', () => testAttempts(harness))
    describe('health of endpoints', () => testHealth(harness))
    describe('new failures, reported once', () => testNews(harness))
    describe('notices of expiries', () => testNotices(harness))
    describe('deliveries', () => testDeliveries(harness))
    describe('recoveries', () => testRecoveries(harness))
    describe('cancellations', () => testCancellations(harness))
    describe('backlog', () => testBacklog(harness))
    describe('retention', () => testPurge(harness))
    describe('tenant isolation of webhooks', () => testWebhookIsolation(harness))
    describe('overview', () => testOverview(harness))
    describe('audit', () => testAudit(harness))
    describe('races', () => testRaces(harness))
  })
}
