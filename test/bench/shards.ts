// npm run bench:shards -- --rounds 7 --seconds 3 --shards 3 --same-load
//
// The processor time of all PostgreSQL servers and of Node.js for 1,000 lists, creates and deliveries: a store over shards beside one
// PostgreSQL under the load of a single shard. The two take turns as A, B, B, A, so that a drift of the machine affects both alike.
// With --same-load the one PostgreSQL has the load of all shards.
// Requests come at a fixed rate, so that the machine is never full; deliveries are a backlog, which is delivered as fast as possible.

import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createPlatform } from '../../lib/platform.ts'
import {
  createPostgresStore,
  createShardedStore,
  type PostgresStore,
  type ShardedStore,
} from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { organizationOf } from '../store/_shards.ts'
import { startChild, stopChildren } from './children.ts'
import { type BenchDatabase, startDatabase } from './database.ts'
import { median, medianInterval } from './figures.ts'
import { type LoadKind, measure, type Server, startLoad } from './loading.ts'
import { describeMachine, readCpu, readTreeSeconds } from './machine.ts'
import { readCount } from './options.ts'
import { SECRET_KEYS } from './programs/delivering.ts'
import { table } from './report.ts'

/** Of each shard. */
const ORGANIZATIONS = 10
const CLIENTS = 60
const LISTS_PER_SECOND = 300
const CREATES_PER_SECOND = 80
const DELIVERIES = 1500
const CONNECTIONS = 16
const RECEIVERS = 10
const TIMEOUT_MS = 60_000
const RAISED = { perSecond: 1e6, burst: 1e9 }

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    shards: { type: 'string', default: '3' },
    'same-load': { type: 'boolean', default: false },
  },
})
const rounds = readCount('--rounds', values.rounds, 100)
const seconds = readCount('--seconds', values.seconds, 60)
const count = readCount('--shards', values.shards, 9)
const names = Array.from({ length: count }, (_, index) => String.fromCharCode('a'.charCodeAt(0) + index))

/** The multiple of a shard's load that a side has. */
const loadOf = ({ servers }: Side): number => (values['same-load'] ? count : servers)

/** One PostgreSQL, or the shards. */
interface Side {
  readonly servers: number
  readonly databases: readonly BenchDatabase[]
  readonly store: PostgresStore | ShardedStore
  /** The argument of the programs. */
  readonly argument: string
  readonly organizations: readonly string[]
  readonly keys: readonly string[]
  readonly api: Server
}

/** Processor time in ms for 1,000 pieces of work. */
interface Cost {
  readonly postgres: number
  readonly node: number
}

const machine = describeMachine()
const sides: Side[] = []
try {
  const receiver = await startChild('receiver', [String(RECEIVERS)])
  const ports = receiver.first.ports as readonly number[]
  for (const shards of [['one'], names]) sides.push(await prepare(shards, ports))
  const load = await startLoad()

  const costOf = async (side: Side, pid: number, run: () => Promise<number>): Promise<Cost> => {
    const read = () => ({
      node: readCpu([pid]).ofProcesses,
      postgres: side.databases.reduce((sum, database) => sum + readTreeSeconds(database.pid), 0),
    })
    const before = read()
    const done = await run()
    const after = read()
    const per1000 = (taken: number): number => (taken * 1000 * 1000) / done
    return { postgres: per1000(after.postgres - before.postgres), node: per1000(after.node - before.node) }
  }

  const request =
    (kind: Pick<LoadKind, 'method' | 'path' | 'body'>, perSecond: number) =>
    (side: Side): Promise<Cost> =>
      costOf(side, side.api.pid, async () => {
        const paced = { connections: CONNECTIONS * loadOf(side), perSecond: perSecond * loadOf(side) }
        return (await measure(load, side.api, { ...kind, ...paced, keys: side.keys, seconds })).count
      })

  const deliver = async (side: Side): Promise<Cost> => {
    const platform = createPlatform(side.store)
    const due = DELIVERIES * loadOf(side)
    const data = { projectId: 'proj_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC', name: 'Showroom relaunch' }
    await inBatches(due, (index) =>
      platform.publish(
        side.organizations[index % side.organizations.length] ?? '',
        'project.completed',
        data,
      ),
    )
    const loop = await startChild('our-deliverer', [side.argument])
    await receiver.ask({ reset: true }, TIMEOUT_MS)
    const cost = await costOf(side, loop.pid, async () => {
      await loop.ask({ deliver: true }, TIMEOUT_MS)
      const until = performance.now() + TIMEOUT_MS
      for (let arrived = 0; arrived < due; ) {
        if (performance.now() > until) throw new Error(`Only ${arrived} of ${due} events have arrived`)
        await sleep(25)
        arrived = (await receiver.ask<{ count: number }>({}, TIMEOUT_MS)).count
      }
      // The last results are written after the last arrival.
      await sleep(500)
      return due
    })
    await loop.stop()
    return cost
  }

  const create = {
    method: 'POST',
    path: '/api/v1/clients',
    body: '{"name":"Atlas Ceramics","city":"Tunis"}',
  } as const
  const works = {
    '1,000 deliveries': deliver,
    '1,000 lists of 50': request({ method: 'GET', path: '/api/v1/clients' }, LISTS_PER_SECOND),
    '1,000 creates': request(create, CREATES_PER_SECOND),
  }
  const rows = [['', 'one: PostgreSQL + Node.js ms', `${count} shards`, 'ratio', 'interval']]
  for (const [name, work] of Object.entries(works)) rows.push(await compare(name, work))
  console.log(`${machine}; ${sides[0]?.databases[0]?.description}`)
  console.log(
    `medians of ${rounds} rounds of ${seconds} s; ${count} shards under ${values['same-load'] ? 'the' : `${count} times the`} load of one`,
  )
  for (const line of table(rows)) console.log(line)
} finally {
  await stopChildren()
  for (const { store, databases } of sides) {
    await store.close()
    for (const database of databases) await database.stop()
  }
}

async function compare(name: string, work: (side: Side) => Promise<Cost>): Promise<string[]> {
  const costs: [Cost[], Cost[]] = [[], []]
  for (const side of sides) await work(side)
  for (let round = 0; round < rounds; round++) {
    for (const index of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const side = sides[index]
      if (side) costs[index].push(await work(side))
    }
  }
  const total = ({ postgres, node }: Cost): number => postgres + node
  const ratios = costs[1].map(
    (cost, round) => total(cost) / total(costs[0][round] ?? { postgres: NaN, node: NaN }),
  )
  const shown = (all: readonly Cost[]): string =>
    `${median(all.map(({ postgres }) => postgres)).toFixed(0)} + ${median(all.map(({ node }) => node)).toFixed(0)}`
  const { low, high } = medianInterval(ratios)
  console.error(`${name}: ${median(ratios).toFixed(2)}`)
  return [
    name,
    shown(costs[0]),
    shown(costs[1]),
    median(ratios).toFixed(2),
    `${low.toFixed(2)}-${high.toFixed(2)}`,
  ]
}

/** Starts and fills the servers of a side. */
async function prepare(shards: readonly string[], ports: readonly number[]): Promise<Side> {
  const databases: BenchDatabase[] = []
  for (const _ of shards) databases.push(await startDatabase())
  const urls = Object.fromEntries(shards.map((name, index) => [name, databases[index]?.url ?? '']))
  const stores = Object.fromEntries(
    Object.entries(urls).map(([name, url]) => [name, createPostgresStore(url)]),
  )
  const [only, ...others] = Object.values(stores)
  const store = only && others.length === 0 ? only : createShardedStore({ shards: stores })
  const organizations = shards.flatMap((_, shard) =>
    Array.from({ length: ORGANIZATIONS }, (_, number) => organizationOf(shards.length, shard, number)),
  )
  for (const { sql } of databases) await sql`alter database postgres set synchronous_commit = off`
  const platform = createPlatform(store)
  const settings = createDeveloperSettings(store, {
    secretKeys: SECRET_KEYS,
    allowPrivateNetworks: true,
    allowHttp: true,
  })
  await inBatches(organizations.length * CLIENTS, (index) =>
    platform.clients.create(organizations[index % organizations.length] ?? '', {
      name: 'Atlas',
      city: 'Tunis',
    }),
  )
  const keys: string[] = []
  for (const [index, organization] of organizations.entries()) {
    const port = ports[index % ports.length]
    await settings.endpoints.register(organization, {
      url: `http://127.0.0.1:${port}/hook`,
      types: ['project.completed'],
    })
    await settings.rateLimits.set(organization, RAISED)
    const scopes = ['clients:read', 'clients:write'] as const
    keys.push((await settings.apiKeys.create(organization, { name: 'bench', scopes, rateLimit: RAISED })).key)
  }
  for (const { sql } of databases) {
    await sql`vacuum analyze`
    await sql`alter database postgres reset synchronous_commit`
  }
  const argument = shards.length === 1 ? (databases[0]?.url ?? '') : JSON.stringify(urls)
  const { first, pid } = await startChild('ours', [argument])
  const api = { subject: `${shards.length}`, port: Number(first.port), pid }
  return { servers: shards.length, databases, store, argument, organizations, keys, api }
}

async function inBatches(times: number, call: (index: number) => Promise<unknown>): Promise<void> {
  const size = 100
  for (let made = 0; made < times; made += size) {
    await Promise.all(Array.from({ length: Math.min(size, times - made) }, (_, index) => call(made + index)))
  }
}
