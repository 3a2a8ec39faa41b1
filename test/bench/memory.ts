import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { startChild, stopChildren } from './children.ts'
import { startDatabase } from './database.ts'
import { addEndpoint } from './deliveries/parts.ts'
import { measure, startLoad, startServers } from './loading.ts'
import { readRssMb } from './machine.ts'

// The memory of a process with the API and of a process with the delivery loop under ten minutes of load: lists, creates with an
// idempotency key, and two deliveries for each create. The goal: the last minute's mean is within 10 % of the second
// minute's. MINUTES sets another length for a trial.

const MINUTES = Number(process.env.MINUTES ?? 10)
const GOAL = 1.1
const ORGANIZATION = 'org_memory'
const LIMIT = { perSecond: 1e6, burst: 1e9 }
const SAMPLE_MS = 1000

const database = await startDatabase()
try {
  const store = createPostgresStore(database.url)
  const settings = createDeveloperSettings(store)
  await settings.rateLimits.set(ORGANIZATION, LIMIT)
  const scopes = ['clients:read', 'clients:write'] as const
  const { key } = await settings.apiKeys.create(ORGANIZATION, { name: 'bench', scopes, rateLimit: LIMIT })
  const receiver = await startChild('receiver', ['1'])
  const [port] = receiver.first.ports as readonly number[]
  await addEndpoint(store, ORGANIZATION, `http://127.0.0.1:${port}/hook`)
  await store.close()

  const loop = await startChild('our-deliverer', [database.url])
  await loop.ask({}, 10_000)
  const [api] = await startServers(database.url, ['ours'])
  if (!api) throw new Error('The server has not started')
  const samples: { readonly name: string; readonly pid: number; readonly mb: number[] }[] = [
    { name: 'API', pid: api.pid, mb: [] },
    { name: 'delivery loop', pid: loop.pid, mb: [] },
  ]
  const timer = setInterval(() => {
    for (const { pid, mb } of samples) mb.push(readRssMb([pid]))
  }, SAMPLE_MS)
  const [lists, creates] = [await startLoad(), await startLoad()]
  const kind = { connections: 4, path: '/api/v1/clients', keys: [key], seconds: MINUTES * 60 }
  const [listed, created] = await Promise.all([
    measure(lists, api, { ...kind, method: 'GET' }),
    measure(creates, api, { ...kind, method: 'POST', body: '{"name":"Atlas Ceramics"}' }),
  ])
  clearInterval(timer)
  const [row] = await database.sql`
    select count(*) filter (where state = 'delivered')::int as delivered,
           (count(*) + (select count(*) from business_api.open_deliveries))::int as all
    from business_api.finished_deliveries`
  console.log(
    `${MINUTES} minutes: ${listed.count} lists, ${created.count} creates, ${row?.delivered} of ${row?.all} deliveries`,
  )
  for (const { name, mb } of samples) {
    const minutes = Array.from({ length: MINUTES }, (_, minute) => meanOfMinute(mb, minute))
    const ratio = (minutes.at(-1) ?? Number.NaN) / (minutes[1] ?? Number.NaN)
    const verdict = ratio <= GOAL ? 'met' : 'MISSED'
    console.log(`${name}: MB by minute ${minutes.map((mean) => mean.toFixed(0)).join(', ')}`)
    console.log(`  last minute / second minute ${ratio.toFixed(3)}, goal ${GOAL} ${verdict}`)
  }
} finally {
  await stopChildren()
  await database.stop()
}

function meanOfMinute(mb: readonly number[], minute: number): number {
  const perMinute = 60_000 / SAMPLE_MS
  const part = mb.slice(minute * perMinute, (minute + 1) * perMinute)
  return part.reduce((sum, each) => sum + each, 0) / part.length
}
