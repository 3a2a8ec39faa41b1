import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import autocannon from 'autocannon'
import postgres from 'postgres'
import { startPostgres } from '../../examples/demo/postgres.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'

// The speed of a list and of a create, in turn with code as a team would write by hand on Fastify and on Express. The servers
// take turns on one PostgreSQL, so that a drift of the machine's speed affects all servers alike; read the ratios.

const ROUNDS = Number(process.env.ROUNDS ?? 3)
const SECONDS = Number(process.env.SECONDS ?? 5)
const CONNECTIONS = 32
const CLIENTS = 2000

const SERVERS = ['ours', 'fastify', 'express'] as const
type Server = (typeof SERVERS)[number]

interface Figures {
  readonly list: number[]
  readonly create: number[]
}

async function main(): Promise<void> {
  const database = await startPostgres()
  const children: ChildProcess[] = []
  try {
    const authorization = await fill(database.url)
    const figures: Record<Server, Figures> = {
      ours: { list: [], create: [] },
      fastify: { list: [], create: [] },
      express: { list: [], create: [] },
    }
    const ports = new Map<Server, number>()
    for (const [index, name] of SERVERS.entries()) {
      const port = 20_100 + index
      children.push(await start(name, port, database.url))
      ports.set(name, port)
    }
    for (let round = 0; round < ROUNDS; round++) {
      for (const [name, port] of ports) figures[name].list.push(await measure(port, authorization, 'GET'))
      for (const [name, port] of ports) figures[name].create.push(await measure(port, authorization, 'POST'))
    }
    print(figures)
  } finally {
    for (const child of children) child.kill()
    await database.stop()
  }
}

async function fill(url: string): Promise<string> {
  await migrate(url)
  const store = createPostgresStore(url)
  const { key } = await createDeveloperSettings(store).apiKeys.create('org_bench', {
    name: 'bench',
    scopes: ['clients:read', 'clients:write'],
  })
  const ids = createIds()
  for (let made = 0; made < CLIENTS; made++) {
    const input = {
      name: 'Atlas Ceramics',
      category: 'Manufacturing',
      city: 'Tunis',
      email: 'hello@atlas.example',
    }
    const { record, events } = newClient(input, { ids, now: Date.now() })
    await store.clients.create({ organizationId: 'org_bench', record, events, idempotency: null })
  }
  await store.close()
  const sql = postgres(url, { max: 1 })
  await sql.unsafe(await readFile(new URL('peer.sql', import.meta.url), 'utf8'))
  await sql.end()
  return `Bearer ${key}`
}

async function start(name: Server, port: number, url: string): Promise<ChildProcess> {
  const program = new URL(`servers/${name}.ts`, import.meta.url).pathname
  const child = spawn(process.execPath, ['--import', 'tsx', program], {
    env: { ...process.env, NODE_ENV: 'production', DATABASE_URL: url, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

let keys = 0

/** Requests per second over a run. */
async function measure(port: number, authorization: string, method: 'GET' | 'POST'): Promise<number> {
  const result = await autocannon({
    url: `http://127.0.0.1:${port}/api/v1/clients`,
    connections: CONNECTIONS,
    duration: SECONDS,
    requests: [
      {
        method,
        headers: { authorization, 'content-type': 'application/json' },
        ...(method === 'POST'
          ? { body: '{"name":"Atlas Ceramics","city":"Tunis"}', setupRequest: withKey }
          : {}),
      },
    ],
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${result.non2xx} refused, ${result.errors} failed`)
  return result.requests.average
}

function withKey(request: autocannon.Request): autocannon.Request {
  return { ...request, headers: { ...request.headers, 'idempotency-key': `bench-${process.pid}-${keys++}` } }
}

function print(figures: Record<Server, Figures>): void {
  const row = (name: string, list: string, create: string): void =>
    console.log(`${name.padEnd(18)}${list.padStart(14)}${create.padStart(14)}`)
  row('requests per second', 'list of 50', 'create')
  for (const name of SERVERS)
    row(name, median(figures[name].list).toFixed(0), median(figures[name].create).toFixed(0))
  for (const peer of ['fastify', 'express'] as const) {
    row(
      `ours / ${peer}`,
      ratio(figures.ours.list, figures[peer].list),
      ratio(figures.ours.create, figures[peer].create),
    )
  }
}

/** Pair by pair, as a machine's speed drifts between rounds. */
function ratio(ours: readonly number[], theirs: readonly number[]): string {
  return median(ours.map((figure, round) => figure / (theirs[round] ?? Number.NaN))).toFixed(2)
}

function median(figures: readonly number[]): number {
  const sorted = [...figures].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

await main()
