import assert from 'node:assert/strict'
import { randomInt, randomUUID } from 'node:crypto'
import type { Sql } from 'postgres'
import { sleep } from '../../lib/base/time.ts'
import type { CitusDatabase } from '../_citus.ts'
import { percentile } from '../_percentile.ts'
import { type Answer, type Call, type Caller, createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'
import { type Host, startHost } from './_host.ts'

// Load of several organizations on a cluster, with a ledger: creates, lists and lists of changes.

/** A request that was answered. */
export interface Sample {
  readonly organizationId: string
  readonly phase: string
  readonly status: Answer['status']
  readonly ms: number
}

/** The load. */
export interface Load {
  readonly host: Host
  readonly samples: readonly Sample[]
  /** The number of clients that must exist, two events each. */
  readonly created: number
  /** Names the samples from now on. */
  phase: string
  /** Ends the load; resolves when every caller with an idempotency key has its answer. */
  stop(): Promise<void>
  /** Asserts the rules of the ledger: every create was answered, and is there once and in the list of changes. */
  assertLedger(sql: Sql): Promise<void>
}

const PATIENCE_MS = 40_000

/** Starts a host, and callers for each organization. */
export async function startLoad(
  databaseUrl: string,
  organizations: readonly string[],
  callers: number,
): Promise<Load> {
  const host = await startHost({ databaseUrl, pool: 'own', api: { rateLimit: UNREACHED_RATE_LIMIT } })
  const samples: Sample[] = []
  /** Names and answers of clients, by organization. */
  const answers = new Map(organizations.map((id) => [id, new Map<string, Set<string>>()] as const))
  const listed = new Map(organizations.map((id) => [id, new Set<string>()] as const))
  const polls = new Map<string, () => Promise<void>>()
  const closing: Caller[] = []
  let isOver = false

  async function work(organizationId: string, send: (call: Call) => Promise<Answer>): Promise<void> {
    while (!isOver) {
      if (randomInt(2) === 0) await send({ method: 'GET', path: '/api/v1/clients?limit=10' })
      else await create(organizationId, send)
      await sleep(randomInt(20))
    }
  }

  async function create(organizationId: string, send: (call: Call) => Promise<Answer>): Promise<void> {
    const name = randomUUID()
    const bodies = new Set<string>()
    answers.get(organizationId)?.set(name, bodies)
    const attempt = async (): Promise<boolean> => {
      const { status, body } = await send({
        method: 'POST',
        path: '/api/v1/clients',
        idempotencyKey: name,
        body: { name },
      })
      if (status === 200) bodies.add(body)
      else await sleep(100)
      return status === 200
    }
    await until(`the create of ${name} is answered`, attempt, PATIENCE_MS)
  }

  function follow(organizationId: string, send: (call: Call) => Promise<Answer>): () => Promise<void> {
    const ids = listed.get(organizationId)
    let from = `updatedSince=${new Date(0).toISOString()}`
    return async () => {
      for (let isWhole = false; !isWhole; ) {
        const { status, headers, body } = await send({
          method: 'GET',
          path: `/api/v1/clients?limit=200&${from}`,
        })
        if (status !== 200) return void (await sleep(100))
        const { data } = JSON.parse(body) as { data: { id: string }[] }
        for (const { id } of data) ids?.add(id)
        from = `updatedSince=${encodeURIComponent(String(headers['sync-token']))}`
        isWhole = data.length < 200
      }
    }
  }

  const working = organizations.flatMap((organizationId) => {
    const start = async (): Promise<void> => {
      const { key } = await makeApiKey(databaseUrl, organizationId)
      const caller = createCaller(host.port, key)
      closing.push(caller)
      const send = async (call: Call): Promise<Answer> => {
        const { phase } = load
        const answer = await caller.send(call)
        // A request across the border of two phases belongs to neither.
        const { phase: end } = load
        const sample = { organizationId, status: answer.status, ms: answer.ms }
        samples.push({ ...sample, phase: phase === end ? phase : `${phase}-${end}` })
        return answer
      }
      const poll = follow(organizationId, send)
      polls.set(organizationId, poll)
      const polling = async (): Promise<void> => {
        while (!isOver) {
          await poll()
          await sleep(50)
        }
      }
      await Promise.all([polling(), ...Array.from({ length: callers }, () => work(organizationId, send))])
    }
    return [start()]
  })

  const load: Load = {
    host,
    samples,
    phase: 'calm',
    get created() {
      return [...answers.values()].reduce((sum, { size }) => sum + size, 0)
    },
    async stop() {
      isOver = true
      await Promise.all(working)
    },
    async assertLedger(sql) {
      host.assertUnharmed()
      for (const [organizationId, replies] of answers) {
        await polls.get(organizationId)?.()
        const rows = await sql<{ id: string; name: string }[]>`
          select c.id, b.name from business_api.clients c
          join business_api.businesses b on b.organization_id = c.organization_id and b.id = c.business_id
          where c.organization_id = ${organizationId} and b.organization_id = ${organizationId}`
        const told = [...replies].filter(([, bodies]) => bodies.size !== 1)
        assert.deepEqual(told, [], 'every idempotency key is answered with one body')
        assert.deepEqual(
          rows.map(({ name }) => name).sort(),
          [...replies.keys()].sort(),
          'every client is there once',
        )
        const missing = rows.filter(({ id }) => !listed.get(organizationId)?.has(id))
        assert.deepEqual(missing, [], 'the lists of changes have missed nothing')
      }
      for (const caller of closing) caller.close()
      await host.stop()
    },
  }
  return load
}

/** Tells how the requests of organizations in a phase went. */
export function tallyOf(
  { samples }: Load,
  phase: string,
  organizations: readonly string[],
): { count: number; statuses: Record<string, number>; p50: number; p99: number; max: number } {
  const own = samples.filter((one) => one.phase === phase && organizations.includes(one.organizationId))
  const statuses: Record<string, number> = {}
  for (const { status } of own) statuses[status] = (statuses[status] ?? 0) + 1
  const times = own.map(({ ms }) => ms)
  return {
    count: own.length,
    statuses,
    p50: Math.round(percentile(times, 0.5)),
    p99: Math.round(percentile(times, 0.99)),
    max: Math.round(Math.max(0, ...times)),
  }
}

/** Finds organizations by the node of their shards: so many of each worker. @returns by the port of the worker */
export async function organizationsByNode(
  { nodes }: CitusDatabase,
  sql: Sql,
  perNode: number,
): Promise<ReadonlyMap<number, readonly string[]>> {
  const found = new Map(nodes.filter(({ isWorker }) => isWorker).map(({ port }) => [port, [] as string[]]))
  for (let number = 1; [...found.values()].some(({ length }) => length < perNode); number++) {
    const own = found.get(await portOf(sql, `org_${number}`))
    if (own && own.length < perNode) own.push(`org_${number}`)
  }
  return found
}

/** The port of the node with the shard of an organization. */
export async function portOf(sql: Sql, organizationId: string): Promise<number> {
  const [row] = await sql<{ port: number }[]>`
    select nodeport as port from pg_dist_shard_placement
    where shardid = get_shard_id_for_distribution_column('business_api.events', ${organizationId}::text)`
  return row?.port ?? 0
}
