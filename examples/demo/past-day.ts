import { randomUUID } from 'node:crypto'
import type { BusinessApiStore } from 'business-api-kit'
import { continueWork, play } from './present.ts'
import type { Work } from './year.ts'

const HOUR_MS = 3_600_000
/** Maximum number of deliveries recorded per hour. */
const HOURLY_MAX = 250

/**
 * Fills the activity of the last 24 hours. Runs a few acts for each hour and records their deliveries with attempts in
 * that hour, like a delivery loop would have done. One of the endpoints was down for four hours. The events themselves
 * are published now.
 *
 * @param loopStores the stores of the shards, one of which has the organization
 */
export async function deliverPastDay(
  store: BusinessApiStore,
  loopStores: readonly BusinessApiStore[],
  past: Work,
): Promise<void> {
  const work = continueWork(store, past)
  let turn = 0
  for (let hoursAgo = 23; hoursAgo >= 0; hoursAgo--) {
    const acts = 3 + Math.round(2 * Math.sin((23 - hoursAgo) / 4))
    for (let act = 0; act < acts; act++) await play(work, turn++)
    for (const shard of loopStores) await recordHour(shard, work, hoursAgo)
  }
}

async function recordHour(
  { deliveries }: BusinessApiStore,
  { organizationId, random }: Work,
  hoursAgo: number,
): Promise<void> {
  const token = randomUUID()
  const claimed = await deliveries.claim({
    token,
    isRepeat: false,
    limit: HOURLY_MAX,
    maxBytes: 4 * 1024 * 1024,
    capacity: {
      endpoint: HOURLY_MAX,
      organization: 0,
      endpoints: {},
      organizations: { [organizationId]: HOURLY_MAX },
    },
    scanLimit: HOURLY_MAX,
    cursor: null,
    leaseMs: 60_000,
    maxAttempts: 5,
  })
  const results = claimed.deliveries.map(({ id, url }) => {
    const isDown = url.endsWith('/crm') && hoursAgo >= 9 && hoursAgo <= 12 && random.between(1, 4) > 1
    const durationMs = random.between(40, 220)
    return {
      organizationId,
      deliveryId: id,
      token,
      outcome: isDown ? ('failed' as const) : ('delivered' as const),
      reason: isDown ? 'http_503' : null,
      isGone: false,
      delayMs: 0,
      backOffMs: null,
      startedAgoMs: hoursAgo * HOUR_MS + durationMs,
      endedAgoMs: hoursAgo * HOUR_MS,
      durationMs,
      dnsMs: 1,
      connectMs: 1,
      tlsMs: null,
      firstByteMs: durationMs - 5,
      status: isDown ? 503 : 204,
      error: null,
      bodyExcerpt: '',
    }
  })
  // Failures never disable the endpoint.
  await deliveries.writeResults(results, { failures: 1_000_000, failingMs: 24 * HOUR_MS })
}
