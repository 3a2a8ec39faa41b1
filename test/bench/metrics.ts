import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { join } from 'node:path'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createMetrics } from '../../lib/metrics.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { percentile } from '../_percentile.ts'
import { fillDatabase, startDatabase } from './database.ts'
import { describeMachine } from './machine.ts'

// The cost of metrics: the handler alone, and one server process, in turns with and without metrics, asked for lists of 1 and of 50. Compared is the
// processor time of the server for a request, which depends less on other programs than the rate does. A ratio is the median of
// the ratios of the rounds, which are short because the load of other programs changes; `none` compares turns without metrics
// with each other, and shows the noise. ROUNDS and SECONDS set another length.

const ROUNDS = Number(process.env.ROUNDS ?? 30)
const SECONDS = Number(process.env.SECONDS ?? 0.5)
const CALLERS = 16
/** Of the handler alone. */
const TURNS = 60
const CALLS = 1000
const GOAL = 1.03

interface Turn {
  /** Microseconds of the server's processor time for a request. */
  readonly cost: number
  readonly rate: number
}

console.log(describeMachine())
await compareHandlers()
const database = await startDatabase()
const keys = await fillDatabase(database)
const server = fork(join(import.meta.dirname, 'metrics-server.ts'), [database.url])
const agent = new Agent({ keepAlive: true, maxSockets: CALLERS })
try {
  const [port] = await once(server, 'message')
  for (const limit of [1, 50]) {
    const url = `http://127.0.0.1:${port}/api/v1/clients?limit=${limit}`
    await measure(url, 'without')
    const ratios: number[] = []
    const noise: number[] = []
    const rates: number[] = []
    const requests: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      // The turn with metrics stands between two without, so that a drift of the machine's speed cancels out.
      const before = await measure(url, 'without')
      const counted = await measure(url, 'with')
      const after = await measure(url, 'without')
      ratios.push(counted.cost / ((before.cost + after.cost) / 2))
      rates.push(counted.rate / ((before.rate + after.rate) / 2))
      noise.push(after.cost / before.cost)
      requests.push(counted.rate)
    }
    const ratio = percentile(ratios, 0.5)
    const verdict = ratio <= GOAL ? '' : `  goal ${GOAL} MISSED`
    console.log(
      `lists of ${limit}: processor time with metrics × ${ratio.toFixed(3)}${verdict}, ` +
        `rate × ${percentile(rates, 0.5).toFixed(3)}; none × ${percentile(noise, 0.5).toFixed(3)}; ` +
        `${Math.round(percentile(requests, 0.5))} requests a second`,
    )
  }
} finally {
  agent.destroy()
  server.disconnect()
  await database.stop()
}

/** The handler alone, without sockets and database: the least that a request can cost, and so the greatest ratio. */
async function compareHandlers(): Promise<void> {
  const store = createMemoryStore()
  const { key } = await createDeveloperSettings(store).apiKeys.create('org_1', {
    name: 'Bench',
    scopes: ['clients:read'],
  })
  const api = createBusinessApi(store, { rateLimit: false })
  const headers = { authorization: `Bearer ${key}` }
  const cost = async (): Promise<number> => {
    const before = process.cpuUsage()
    for (let request = 0; request < CALLS; request++) {
      await api(new Request('http://x/api/v1/clients?limit=1', { headers }))
    }
    const { user, system } = process.cpuUsage(before)
    return (user + system) / CALLS
  }
  const [ratios, added]: [number[], number[]] = [[], []]
  for (let turn = 0; turn < TURNS; turn++) {
    const before = await cost()
    const metrics = createMetrics(store)
    const counted = await cost()
    metrics.close()
    const without = (before + (await cost())) / 2
    ratios.push(counted / without)
    added.push(counted - without)
  }
  console.log(
    `handler alone: processor time with metrics × ${percentile(ratios, 0.5).toFixed(3)}, ` +
      `${percentile(added, 0.5).toFixed(2)} µs more for a request`,
  )
}

async function measure(url: string, mode: 'with' | 'without'): Promise<Turn> {
  const cpuBefore = await ask(mode)
  const startedAt = performance.now()
  const endsAt = startedAt + SECONDS * 1000
  let requests = 0
  const call = async (): Promise<void> => {
    while (performance.now() < endsAt) {
      await list(url)
      requests++
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, call))
  const seconds = (performance.now() - startedAt) / 1000
  return { cost: ((await ask(mode)) - cpuBefore) / requests, rate: requests / seconds }
}

async function ask(mode: 'with' | 'without'): Promise<number> {
  server.send(mode)
  const [microseconds] = await once(server, 'message')
  return microseconds
}

function list(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    get(url, { agent, headers: { authorization: `Bearer ${keys.one}` } }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`The server answers ${response.statusCode}`))
      response.resume().on('end', resolve)
    }).on('error', reject)
  })
}
