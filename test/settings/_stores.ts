import { randomUUID } from 'node:crypto'
import { after, before, describe } from 'node:test'
import { createIds } from '../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import type { AttemptResult, ClaimedDelivery } from '../../lib/webhooks/claims.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// The webhook settings on every store. An administrator must see the same on each of them.

/**
 * Registers tests for each store. The tests may share a store and run one after another, each in new organizations
 * (see {@link newOrganization}).
 */
export function describeOnEveryStore(register: (open: () => BusinessApiStore) => void): void {
  describe('on the memory store', () => register(() => createMemoryStore()))

  describe('on PostgreSQL', () => {
    let database: TestDatabase
    let store: PostgresStore
    before(async () => {
      database = await createTestDatabase()
      store = createPostgresStore(database.url)
    })
    after(async () => {
      await store.close()
      await database.drop()
    })
    register(() => store)
  })
}

let organizations = 0

/** Returns the name of an unused organization. */
export function newOrganization(): string {
  organizations++
  return `org_settings_${organizations}`
}

const ids = createIds()

/** Publishes an event and returns its id. */
export async function publish(
  store: BusinessApiStore,
  organizationId: string,
  type = 'client.created',
  text = 'é 🏺',
): Promise<string> {
  const id = ids('evt')
  const createdAt = new Date().toISOString()
  const body = JSON.stringify({ id, type, createdAt, data: { text } })
  await store.events.publish(organizationId, { id, type, body })
  return id
}

/** Claims the due deliveries of one organization like a delivery loop does. */
export async function claim(
  store: BusinessApiStore,
  organizationId: string,
  limit = 10_000,
): Promise<readonly Claimed[]> {
  const claimed: Claimed[] = []
  while (claimed.length < limit) {
    const some = await claimSome(store, organizationId, Math.min(CLAIM_MAX, limit - claimed.length))
    claimed.push(...some)
    if (some.length < CLAIM_MAX) break
  }
  return claimed
}

/** The size of a loop's claims, because claiming thousands at once could exceed the statement timeout. */
const CLAIM_MAX = 250

async function claimSome(
  store: BusinessApiStore,
  organizationId: string,
  limit: number,
): Promise<readonly Claimed[]> {
  const token = randomUUID()
  const { deliveries } = await store.deliveries.claim({
    token,
    isRepeat: false,
    limit,
    maxBytes: 4 * 1024 * 1024,
    capacity: { endpoint: limit, organization: 0, endpoints: {}, organizations: { [organizationId]: limit } },
    scanLimit: 1000,
    cursor: null,
    leaseMs: 60_000,
    maxAttempts: 5,
  })
  return deliveries.map((delivery) => ({ ...delivery, token }))
}

/** A delivery with the token needed to write its result. */
export interface Claimed extends ClaimedDelivery {
  readonly token: string
}

/**
 * Records an attempt of each delivery with the same outcome. The {@link AttemptResult.reason} of failed
 * ones is `http_500`.
 */
export async function record(
  store: BusinessApiStore,
  claimed: readonly Claimed[],
  outcome: AttemptResult['outcome'],
  changes: Partial<AttemptResult> = {},
): Promise<void> {
  const results = claimed.map(({ organizationId, id, token }) => ({
    organizationId,
    deliveryId: id,
    token,
    outcome,
    reason: outcome === 'failed' ? 'http_500' : null,
    isGone: false,
    delayMs: outcome === 'retry' ? 30_000 : 0,
    backOffMs: null,
    startedAgoMs: 30,
    endedAgoMs: 10,
    durationMs: 20,
    dnsMs: 1,
    connectMs: 2,
    tlsMs: 3,
    firstByteMs: 4,
    status: outcome === 'delivered' ? 204 : 500,
    error: null,
    bodyExcerpt: 'no',
    ...changes,
  }))
  await store.deliveries.writeResults(results, { failures: 1000, failingMs: 1_000_000_000 })
}
