import { readdirSync, readFileSync } from 'node:fs'
import postgres from 'postgres'
import { createBusinessApi, SCOPES } from '../../lib/index.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import { type CitusDatabase, createCitusDatabase, createEmptyCitusDatabase } from '../_citus.ts'
import { addEndpoint } from './deliveries/parts.ts'

// Creates, lists and deliveries on a cluster beside one PostgreSQL, which is the server of the coordinator, in turns and from one
// process. Ratios of times, and processor time of each node for a call: with more machines than one, the node with the most
// processor time for a call is the limit. CITUS_URL names the coordinator; the nodes run on this machine, with Linux.

const ORGANIZATIONS = 16
const AT_ONCE = 16
const CREATES = 160
const LISTS = 320
const ROUNDS = 2
const MS_PER_TICK = 10
const LIMIT = { perSecond: 1e6, burst: 1e9 }

interface Figures {
  ms: number
  /** Processor time of each node, in milliseconds. */
  cpu: number[]
}

const plain = await createEmptyCitusDatabase({ workers: 0 })
const cluster = await createCitusDatabase()
try {
  await migrate(plain.url)
  const sides = [await open(plain), await open(cluster)]
  const totals = sides.map(() => new Map<string, Figures>())
  // The first round opens connections and makes plans.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [place, side] of sides.entries()) {
      for (const [name, work] of Object.entries(side.works)) {
        const before = side.cpu()
        const begunAt = performance.now()
        const calls = await work()
        const ms = (performance.now() - begunAt) / calls
        const after = side.cpu()
        if (round === 0) continue
        const total = totals[place]?.get(name) ?? { ms: 0, cpu: after.map(() => 0) }
        total.ms += ms / ROUNDS
        total.cpu = total.cpu.map(
          (sum, node) => sum + ((after[node] ?? 0) - (before[node] ?? 0)) / calls / ROUNDS,
        )
        totals[place]?.set(name, total)
      }
    }
  }
  for (const [name, one] of totals[0] ?? []) {
    const many = totals[1]?.get(name)
    if (!many) continue
    const [coordinator = 0, ...workers] = many.cpu
    const onWorkers = workers.reduce((sum, ms) => sum + ms, 0)
    console.log(
      `${name}: the time on the cluster is ${(many.ms / one.ms).toFixed(2)} times the time on one PostgreSQL; processor time for a call ` +
        `${(one.cpu[0] ?? 0).toFixed(2)} ms on one PostgreSQL, ${coordinator.toFixed(2)} ms on the coordinator and ` +
        `${onWorkers.toFixed(2)} ms on the workers together (${workers.map((ms) => ms.toFixed(2)).join(', ')})`,
    )
  }
  for (const { close } of sides) await close()
} finally {
  await plain.drop()
  await cluster.drop()
}

async function open(database: CitusDatabase): Promise<{
  works: Record<string, () => Promise<number>>
  cpu(): number[]
  close(): Promise<void>
}> {
  const store = createPostgresStore(database.url, { maxConnections: AT_ONCE })
  const api = createBusinessApi(store, { rateLimit: { key: LIMIT, organization: LIMIT }, logger: false })
  const settings = createDeveloperSettings(store)
  const keys: string[] = []
  for (let index = 0; index < ORGANIZATIONS; index++) {
    await addEndpoint(store, `org_${index}`, 'https://hooks.example/')
    keys.push((await settings.apiKeys.create(`org_${index}`, { name: 'Benchmark', scopes: SCOPES })).key)
  }
  const postmasters = await Promise.all(database.nodes.map(({ url }) => postmasterOf(url)))
  const sql = postgres(database.url, { max: 1 })

  async function repeat(calls: number, path: string, init: RequestInit): Promise<number> {
    let left = calls
    const work = async (): Promise<void> => {
      while (left-- > 0) {
        const headers = {
          authorization: `Bearer ${keys[left % ORGANIZATIONS]}`,
          'content-type': 'application/json',
        }
        const answer = await api(new Request(`http://localhost/api/v1/${path}`, { ...init, headers }))
        if (answer.status !== 200) throw new Error(`Cannot call ${path}: ${answer.status}`)
        await answer.text()
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    return calls
  }

  async function deliver(): Promise<number> {
    const countOpen = async (): Promise<number> =>
      (await sql`select count(*)::int as count from business_api.open_deliveries`)[0]?.count
    const backlog = await countOpen()
    const answer = { status: 200, error: null, bodyExcerpt: '', durationMs: 1 }
    const loop = createDeliveryLoop(
      store,
      { send: async () => answer, close: async () => {} },
      { logger: false },
    )
    loop.start()
    while ((await countOpen()) > 0) await new Promise((resolve) => setTimeout(resolve, 50))
    await loop.stop()
    return backlog
  }

  return {
    works: {
      'a create with two events': () =>
        repeat(CREATES, 'clients', { method: 'POST', body: JSON.stringify({ name: 'Benchmark' }) }),
      'a list of 20': () => repeat(LISTS, 'clients?limit=20', {}),
      'a delivery': deliver,
    },
    cpu: () => postmasters.map(cpuOf),
    async close() {
      await sql.end({ timeout: 1 })
      await store.close()
    },
  }
}

async function postmasterOf(url: string): Promise<number> {
  const sql = postgres(url, { max: 1 })
  const [row] = await sql<{ file: string }[]>`select pg_read_file('postmaster.pid') as file`
  await sql.end()
  return Number(row?.file.split('\n')[0])
}

/** The processor time of a server and its processes, those that have ended included, in milliseconds. */
function cpuOf(postmaster: number): number {
  let ticks = 0
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, 'utf8')
      const fields = stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .map(Number)
      const [, parent, user = 0, system = 0, childUser = 0, childSystem = 0] = [0, 1, 11, 12, 13, 14].map(
        (at) => fields[at],
      )
      if (parent === postmaster) ticks += user + system
      if (Number(entry) === postmaster) ticks += user + system + childUser + childSystem
    } catch {
      // The process has ended.
    }
  }
  return ticks * MS_PER_TICK
}
