import { readFile } from 'node:fs/promises'
import { startPostgres } from '../../examples/demo/postgres.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { percentile } from '../_percentile.ts'
import { type Host, startHost } from '../faults/_host.ts'
import { type Answers, callSteadily, type FloodConfig, startFlood } from '../faults/_key-flood.ts'

// A tenant's lists with and without 1,200 connections of callers without a valid key beside: the goal is a p99 of at most three
// times as much, and never 503. Host, database and flood share the processors here, so read the ratios, and the host's own
// processor time, which shows the cost of a flood on a busy machine too.

const CONNECTIONS = Number(process.env.CONNECTIONS ?? 1200)
const SECONDS = Number(process.env.SECONDS ?? 20)
const PER_SECOND = 100
const LIMIT = { perSecond: 100_000, burst: 100_000 }
const ORGANIZATION = 'org_bench'

interface Measured extends Answers {
  /** Of the host's process, in milliseconds for each second. */
  readonly cpuMs: number
}

const FLOODS: Readonly<Record<string, Pick<FloodConfig, 'presents' | 'addresses'>>> = {
  'invented keys from one address': { presents: 'invented', addresses: 1 },
  'invented keys from 1,000 addresses': { presents: 'invented', addresses: 1000 },
  'malformed keys': { presents: 'malformed', addresses: 1 },
  'no keys': { presents: 'nothing', addresses: 1 },
}

const database = await startPostgres()
try {
  await migrate(database.url)
  const store = createPostgresStore(database.url)
  const settings = createDeveloperSettings(store)
  const makeKey = async (): Promise<string> =>
    (await settings.apiKeys.create(ORGANIZATION, { name: 'bench', scopes: ['clients:read'] })).key
  const key = await makeKey()
  const config = {
    databaseUrl: database.url,
    pool: 'own',
    api: { rateLimit: { key: LIMIT, organization: LIMIT } },
  } as const
  let host = await startHost(config)
  const { port } = host

  await measure(host, 2, key)
  const quiet = await measure(host, SECONDS, key)
  report('without a flood', quiet, quiet)
  for (const [what, kind] of Object.entries(FLOODS)) {
    const flood = await startFlood({ port, connections: CONNECTIONS, ...kind })
    report(what, await measure(host, SECONDS, key), quiet)
    console.log('  answers to the flood:', await flood.statuses())
    await flood.stop()
  }

  const flood = await startFlood({ port, connections: CONNECTIONS, presents: 'invented', addresses: 1 })
  await measure(host, 2, key)
  const keys = await Promise.all(Array.from({ length: 50 }, makeKey))
  report('first requests of keys made during the flood', await measure(host, 0.5, ...keys), quiet)
  await host.stop()
  host = await startHost({ ...config, port })
  report('after a restart during the flood', await measure(host, SECONDS, key), quiet)
  await flood.stop()
  await host.stop()
  await store.close()
} finally {
  await database.stop()
}

/** Calls with the keys in turn. */
async function measure({ port, pid }: Host, seconds: number, ...keys: readonly string[]): Promise<Measured> {
  const [beganAt, cpuBefore] = [performance.now(), await readCpuMs(pid)]
  const pace = { count: seconds * PER_SECOND, perSecond: PER_SECOND }
  const answers = await callSteadily(port, pace, (index) => keys[index % keys.length] ?? '')
  const tookSeconds = (performance.now() - beganAt) / 1000
  return { ...answers, cpuMs: ((await readCpuMs(pid)) - cpuBefore) / tookSeconds }
}

/** The time on the processor of a process; NaN on systems without this figure. */
async function readCpuMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const [user, system] = stat.split(') ').at(-1)?.split(' ').slice(11, 13) ?? []
  return (Number(user) + Number(system)) * 10
}

function report(what: string, { tookMs, statuses, cpuMs }: Measured, quiet: Measured): void {
  const ms = (share: number): string => `${percentile(tookMs, share).toFixed(1)} ms`
  const ratio = percentile(tookMs, 0.99) / percentile(quiet.tookMs, 0.99)
  console.log(
    `${what}: p50 ${ms(0.5)}, p99 ${ms(0.99)}, longest ${ms(1)}; p99 ${ratio.toFixed(2)} times that without; ` +
      `statuses ${[...statuses].join(', ')}; ${cpuMs.toFixed(0)} ms of processor a second`,
  )
}
