import { testActivity } from './activity.ts'
import { testAdmission } from './admission.ts'
import { testApiKeys } from './api-keys.ts'
import { testAttempts } from './attempts.ts'
import { testAudit } from './audit.ts'
import { testBackfills } from './backfills.ts'
import { testCancellations } from './cancellations.ts'
import { testChanges } from './changes.ts'
import { testChangesIdempotency } from './changes-idempotency.ts'
import { testRepeatedChanges } from './changes-repeated.ts'
import { testRules } from './changes-rules.ts'
import { testClaimBytes } from './claim-bytes.ts'
import { testClaims } from './claims.ts'
import { testConversions } from './conversions.ts'
import { testCreations } from './creations.ts'
import { testDeliveries } from './deliveries.ts'
import { testEndpointRates } from './endpoint-rates.ts'
import { testEndpoints } from './endpoints.ts'
import { testEventLog } from './event-log.ts'
import type { ContractTest, StoreHarness, StoreUnderTest } from './harness.ts'
import { testHealth } from './health.ts'
import { testIdempotency } from './idempotency.ts'
import { testImports } from './imports.ts'
import { testInsertions } from './insertions.ts'
import { testIsolation } from './isolation.ts'
import { testLeases } from './leases.ts'
import { testLists } from './lists.ts'
import { testNews } from './news.ts'
import { testNotices } from './notices.ts'
import { testNumbers } from './numbers.ts'
import { testOrganizations } from './organizations.ts'
import { testOverdue } from './overdue.ts'
import { testPayments } from './payments.ts'
import { testPublishing } from './publishing.ts'
import { testPurge } from './purge.ts'
import { testQueueCounts } from './queue-counts.ts'
import { testRaces } from './races.ts'
import { testReads } from './reads.ts'
import { testReadsFilters } from './reads-filters.ts'
import { testRecoveries } from './recoveries.ts'
import { testRepeats } from './repeats.ts'
import { testRequests } from './requests.ts'
import { testResealing } from './resealing.ts'
import { testReversals } from './reversals.ts'
import { testRotations } from './rotations.ts'
import { testRoundRobin } from './round-robin.ts'
import { testSigningSecrets } from './signing-secrets.ts'
import { testSync } from './sync.ts'
import { testTraces } from './traces.ts'
import { testWatching } from './watching.ts'
import { testWebhookIsolation } from './webhook-isolation.ts'

// The contract of BusinessApiStore as a test suite that all stores run. It tests the rules in lib/business-store.ts and
// the resources' files. The suite works with any store and test runner, and uses node:assert.

/** The functions of a test runner, such as node:test, Vitest or any other with the same interface. */
export interface TestRunner {
  /** Groups the tests defined by `body`. */
  describe(name: string, body: () => void): unknown
  /** Defines a test. */
  readonly test: {
    (name: string, body: () => Promise<void>): unknown
    /** Defines a test that is reported as skipped. */
    skip(name: string, body: () => Promise<void>): unknown
  }
}

/** Options for `describeStoreContract`. */
export interface StoreContractOptions extends StoreUnderTest {
  /** The name of the store, used as a prefix of all test names. */
  readonly name: string
  /**
   * The runner, which is `{ describe, test }` from node:test or Vitest. A test takes up to 30 seconds on
   * a slow machine.
   */
  readonly runner: TestRunner
  /** The parts to run. Defaults to all. */
  readonly parts?: readonly ContractPart[] | undefined
  /** The parts of the contract that the store doesn't support. Their tests are reported as skipped. None by default. */
  readonly without?: readonly StoreCapability[] | undefined
}

const PARTS = {
  lists: testLists,
  'lists of changes': testSync,
  "the host's reads": testReads,
  "filters of the host's reads": testReadsFilters,
  creations: testCreations,
  idempotency: testIdempotency,
  changes: testChanges,
  'rules of changes': testRules,
  'repeated changes': testRepeatedChanges,
  'idempotency of changes': testChangesIdempotency,
  payments: testPayments,
  'reversals of payments': testReversals,
  'overdue invoices': testOverdue,
  numbers: testNumbers,
  imports: testImports,
  conversions: testConversions,
  admission: testAdmission,
  'API keys': testApiKeys,
  'rotations of API keys': testRotations,
  'insertions of keys and endpoints': testInsertions,
  'tenant isolation': testIsolation,
  endpoints: testEndpoints,
  'signing secrets': testSigningSecrets,
  'sealed credentials': testResealing,
  publishing: testPublishing,
  claims: testClaims,
  'claims by bytes': testClaimBytes,
  'the round robin of endpoints': testRoundRobin,
  'repeated claims': testRepeats,
  leases: testLeases,
  attempts: testAttempts,
  activity: testActivity,
  'health of endpoints': testHealth,
  'rates of endpoints': testEndpointRates,
  'new failures, reported once': testNews,
  'notices of expiries': testNotices,
  deliveries: testDeliveries,
  recoveries: testRecoveries,
  cancellations: testCancellations,
  backfills: testBackfills,
  'event log': testEventLog,
  'watchers of new work': testWatching,
  'counts of the queue': testQueueCounts,
  retention: testPurge,
  'traces of events': testTraces,
  'tenant isolation of webhooks': testWebhookIsolation,
  'deletion of organizations': testOrganizations,
  audit: testAudit,
  'the log of requests': testRequests,
  races: testRaces,
} as const satisfies Readonly<Record<string, (harness: StoreHarness) => void>>

/** A part of the contract, as printed by the runner. */
export type ContractPart = keyof typeof PARTS

/** A part of the contract, or `one store for all` if `store` returns the same store for all organizations. */
export type StoreCapability = ContractPart | typeof ONE_STORE

const ONE_STORE = 'one store for all'

/**
 * Defines the tests of the store contract, which cover atomicity, races, isolation of organizations, idempotency,
 * leases, retries, audit and everything else that `BusinessApiStore` requires. Both stores of the library pass
 * the same suite.
 *
 * @throws `RangeError` if `parts` or `without` has a part that isn't in the contract
 */
export function describeStoreContract(options: StoreContractOptions): void {
  const { name, runner, parts, without = [], ...store } = options
  checkParts(without, [...Object.keys(PARTS), ONE_STORE])
  checkParts(parts ?? [], Object.keys(PARTS))
  runner.describe(`${name} store`, () => {
    for (const [part, register] of Object.entries(PARTS)) {
      if (parts !== undefined && !parts.includes(part as ContractPart)) continue
      runner.describe(part, () => register(harnessOf(store, runner, without, part as ContractPart)))
    }
  })
}

function checkParts(given: readonly string[], known: readonly string[]): void {
  const unknown = given.find((part) => !known.includes(part))
  if (unknown === undefined) return
  const names = known.map((part) => `'${part}'`).join(', ')
  throw new RangeError(`Cannot find '${unknown}' in the contract of stores: its parts are ${names}`)
}

function harnessOf(
  store: StoreUnderTest,
  runner: TestRunner,
  without: readonly StoreCapability[],
  part: ContractPart,
): StoreHarness {
  type Body = (test: ContractTest) => unknown
  const register = (isSkipped: boolean, name: string, body: Body): void => {
    const run = isSkipped ? runner.test.skip : runner.test
    run(name, () => runWithCleanUp(body))
  }
  return {
    store: (organizationId) => store.store(organizationId),
    secondStore: (organizationId) => store.secondStore(organizationId),
    events: (organizationId) => store.events(organizationId),
    letTimePass: (organizationId, ms) => store.letTimePass(organizationId, ms),
    test: (name, body) => register(without.includes(part), name, body),
    sharedTest: (name, body) => register(without.includes(part) || without.includes(ONE_STORE), name, body),
  }
}

/** Runs a test and then its cleanup functions, because runners handle those differently. */
async function runWithCleanUp(body: (test: ContractTest) => unknown): Promise<void> {
  const cleanUps: (() => unknown)[] = []
  try {
    await body({ after: (cleanUp) => cleanUps.push(cleanUp) })
  } finally {
    for (const cleanUp of cleanUps) await cleanUp()
  }
}
