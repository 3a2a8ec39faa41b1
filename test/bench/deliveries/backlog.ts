import postgres from 'postgres'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import type { BusinessApiStore } from '../../../lib/business-store.ts'
import { createPostgresStore, migrate } from '../../../lib/postgres.ts'
import { percentile } from '../../_percentile.ts'
import { addEndpoint } from './parts.ts'

// The cost of a claim of 100 with a thousand due deliveries and with a million, of twenty endpoints. The goal: at most twice as
// much. Each claim is given back, so that the backlog stays the same. And the cost of the counts of the queue for metrics, which
// end after 10,000: the goal is at most 1.3 times as much with a million due as with 20,000.

const ENDPOINTS = 20
const CLAIMS = 200
const COUNTS = 30

const database = await startPostgres()
const sql = postgres(database.url, { max: 1 })
try {
  await migrate(database.url)
  const store = createPostgresStore(database.url)
  for (let index = 0; index < ENDPOINTS; index++)
    await addEndpoint(store, `org_${index}`, 'https://hooks.example/')

  await publish(1000)
  await measure(store)
  const small = await measure(store)
  const counts = [await measureCounts(store)]
  await publish(19_000)
  counts.push(await measureCounts(store))
  await publish(980_000)
  const large = await measure(store)
  counts.push(await measureCounts(store))
  const ratio = percentile(large, 0.5) / percentile(small, 0.5)
  console.log(
    `a claim of 100: ${percentile(small, 0.5).toFixed(2)} ms with 1,000 due, ` +
      `${percentile(large, 0.5).toFixed(2)} ms with 1,000,000 due (medians of ${CLAIMS}); ` +
      `ratio ${ratio.toFixed(2)}, goal 2 ${ratio <= 2 ? 'met' : 'MISSED'}`,
  )
  const growth = (counts[2] ?? Number.NaN) / (counts[1] ?? Number.NaN)
  console.log(
    `countQueue() with 1,000, 20,000 and 1,000,000 due: ${counts.map((ms) => ms.toFixed(1)).join(', ')} ms (medians of ${COUNTS}); ` +
      `ratio ${growth.toFixed(2)}, goal 1.3 ${growth <= 1.3 ? 'met' : 'MISSED'}`,
  )
  await store.close()
} finally {
  await sql.end()
  await database.stop()
}

async function publish(count: number): Promise<void> {
  for (let index = 0; index < ENDPOINTS; index++) {
    await sql`
      select business_api.insert_events(${`org_${index}`}, (
        select jsonb_agg(jsonb_build_object(
          'id', business_api.new_id('evt'), 'hasNewId', true, 'type', 'project.completed', 'body', repeat('x', 400)
        ))
        from generate_series(1, ${count / ENDPOINTS}::int)
      ))`
  }
}

/** The median time of the counts, in milliseconds. */
async function measureCounts(store: BusinessApiStore): Promise<number> {
  const count = (): Promise<unknown> => store.deliveries.countQueue(null)
  await measureOnce(count)
  const times: number[] = []
  for (let index = 0; index < COUNTS; index++) times.push(await measureOnce(count))
  return percentile(times, 0.5)
}

async function measureOnce(work: () => Promise<unknown>): Promise<number> {
  const begunAt = performance.now()
  await work()
  return performance.now() - begunAt
}

async function measure(store: BusinessApiStore): Promise<number[]> {
  const times: number[] = []
  let cursor = null
  for (let index = 0; index < CLAIMS; index++) {
    const token = `bench-${performance.now()}`
    const begunAt = performance.now()
    const claims: Awaited<ReturnType<BusinessApiStore['deliveries']['claim']>> = await store.deliveries.claim(
      {
        token,
        isRepeat: false,
        limit: 100,
        maxBytes: 4 * 1024 * 1024,
        capacity: { endpoint: 8, organization: 64, endpoints: {}, organizations: {} },
        scanLimit: 200,
        cursor,
        leaseMs: 30_000,
        maxAttempts: 5,
      },
    )
    times.push(performance.now() - begunAt)
    cursor = claims.next
    if (claims.deliveries.length !== 100)
      throw new Error(`Claimed ${claims.deliveries.length} instead of 100`)
    await store.deliveries.release(
      claims.deliveries.map(({ organizationId, id }) => ({ organizationId, deliveryId: id, token })),
    )
  }
  return times
}
