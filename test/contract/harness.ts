import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'

/**
 * The parts that the suite needs beside a store. Every test works in new organizations, named `org_contract_<n>`, so that a
 * single store, empty at the start, serves the whole suite. The tests run one after another.
 */
export interface StoreUnderTest {
  /**
   * Returns the store for the calls on behalf of an organization: under row level security a store with a pool of that
   * organization, otherwise the same store for all.
   */
  store(organizationId: string): BusinessApiStore | Promise<BusinessApiStore>
  /** Returns another store on the same data, as in another process; the same store where there can be only one. */
  secondStore(organizationId: string): BusinessApiStore | Promise<BusinessApiStore>
  /** The recorded events of an organization, oldest id first. */
  events(organizationId: string): readonly EventRecord[] | Promise<readonly EventRecord[]>
  /**
   * Makes the store judge an organization as `ms` milliseconds later: either the store's clock goes on, or every compared time
   * goes back (`expires_at` of idempotency entries and of API keys, `last_used_at`, the times of the rate buckets; the times at
   * which deliveries are due, were claimed, and end their lease; the time at which an endpoint began to fail, and at which its
   * previous secret ends; the expiry in notices; the moments of an endpoint's rate; from a day on the moments at which events were
   * published, with the ids of deliveries if these tell the moment, and the hours of activity). Nothing else may change, and other organizations may go along or
   * not.
   */
  letTimePass(organizationId: string, ms: number): void | Promise<void>
}

/** The context of a test. */
export interface ContractTest {
  /** Runs a function after the test, also when the test has failed. */
  after(cleanUp: () => unknown): void
}

/** The store with the runner of its tests. */
export interface StoreHarness extends StoreUnderTest {
  /** Registers a test. */
  test(name: string, body: (test: ContractTest) => unknown): void
  /** Registers a test that needs one store for all organizations: skipped without that capability. */
  sharedTest(name: string, body: (test: ContractTest) => unknown): void
}
