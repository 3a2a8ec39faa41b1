import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'

/**
 * What the suite needs in addition to a store. Tests run one after another in new organizations named
 * `org_contract_<n>`, so a single store that is initially empty is enough for the whole suite.
 */
export interface StoreUnderTest {
  /**
   * Returns the store to call for an organization. With row-level security, this is a store with that organization's
   * pool, otherwise the same store for all.
   */
  store(organizationId: string): BusinessApiStore | Promise<BusinessApiStore>
  /**
   * Returns another store with the same data, as in a different process. Returns the same store if there can
   * only be one.
   */
  secondStore(organizationId: string): BusinessApiStore | Promise<BusinessApiStore>
  /** Returns the recorded events of an organization by ascending id. */
  events(organizationId: string): readonly EventRecord[] | Promise<readonly EventRecord[]>
  /**
   * Makes the store treat an organization as if `ms` milliseconds had passed. Either move the store's clock forward, or
   * move all compared times back. These are `expires_at` of idempotency entries and API keys, `last_used_at` and the
   * times of rate buckets, the times when deliveries are due, were claimed and their lease ends, the times when an
   * endpoint started to fail and its previous secret expires, the expiry in notices, and the times of an endpoint's
   * rate. From one day on, also the times when events were published, including the ids of deliveries if these contain
   * the time, and the hours of activity. Nothing else may change, but other organizations may be affected as well.
   */
  letTimePass(organizationId: string, ms: number): void | Promise<void>
}

/** The context of a test. */
export interface ContractTest {
  /** Runs a function after the test, even if it failed. */
  after(cleanUp: () => unknown): void
}

/** The store and the runner for its tests. */
export interface StoreHarness extends StoreUnderTest {
  /** Defines a test. */
  test(name: string, body: (test: ContractTest) => unknown): void
  /** Defines a test that requires a single store for all organizations. Skipped if there is none. */
  sharedTest(name: string, body: (test: ContractTest) => unknown): void
}
