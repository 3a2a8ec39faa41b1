import assert from 'node:assert/strict'
import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { RESOURCES } from '../../lib/access/scopes.ts'
import type { Answer, Call, Caller } from './_client.ts'

/** The strength of a storm. */
export interface StormOptions {
  readonly kills: number
  /** Callers at work at once. */
  readonly callers: number
  readonly pauseMs: number
  /** The time limit of the whole storm. */
  readonly timeoutMs: number
  /** Connections to servers whose sessions are killed. Default: the connection of the call alone. */
  readonly victims?: readonly Sql[]
}

/** Everything that was sent and answered. */
export interface Storm {
  kills: number
  requests: number
  retries: number
  statuses: Map<Answer['status'], number>
  slow: Call[]
  slowestMs: number
  /** The answered bodies by idempotency key; empty for a key that the caller has given up. */
  replies: Map<string, Set<string>>
  /** The names of clients created without a key; true if the caller had an answer. */
  unkeyed: Map<string, boolean>
}

const SLOW_MS = 1000

/** Puts mixed load on the API while connections of the database are killed at random, until all kills are done. */
export async function runStorm(sql: Sql, caller: Caller, options: StormOptions): Promise<Storm> {
  const storm: Storm = {
    kills: 0,
    requests: 0,
    retries: 0,
    statuses: new Map(),
    slow: [],
    slowestMs: 0,
    replies: new Map(),
    unkeyed: new Map(),
  }
  const endsAt = performance.now() + options.timeoutMs
  const goesOn = (): boolean => storm.kills < options.kills && performance.now() < endsAt
  await Promise.all([
    killConnections(sql, storm, options, goesOn),
    ...Array.from({ length: options.callers }, async () => {
      while (goesOn()) await doSomething(storm, caller)
    }),
  ])
  return storm
}

async function killConnections(
  sql: Sql,
  storm: Storm,
  { pauseMs, victims = [sql] }: StormOptions,
  goesOn: () => boolean,
): Promise<void> {
  while (goesOn()) {
    const server = victims[randomInt(victims.length)] ?? sql
    const [killed] = await server`
      select count(*) filter (where pg_terminate_backend(pid))::int as count from (
        select pid from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
        order by random() limit ${randomInt(1, 5)}
      ) as victim`
    storm.kills += killed?.count ?? 0
    await sleep(pauseMs)
  }
}

async function doSomething(storm: Storm, caller: Caller): Promise<void> {
  const choice = randomInt(10)
  if (choice < 5) await list(storm, caller)
  else if (choice < 7) await createWithKey(storm, caller)
  else if (choice < 9) await createWithLead(storm, caller)
  else await createWithoutKey(storm, caller)
}

async function list(storm: Storm, caller: Caller): Promise<void> {
  const path = `/api/v1/${RESOURCES[randomInt(RESOURCES.length)]}?limit=10`
  await send(storm, caller, { method: 'GET', path })
}

/** A client under a key, by two requests at once as often as not. */
async function createWithKey(storm: Storm, caller: Caller): Promise<string | undefined> {
  const idempotencyKey = randomUUID()
  const call: Call = {
    method: 'POST',
    path: '/api/v1/clients',
    idempotencyKey,
    body: { name: idempotencyKey },
  }
  const twins = randomInt(2) === 0 ? [call] : [call, call]
  const [body] = await Promise.all(twins.map((twin) => insist(storm, caller, twin)))
  return body
}

/** The flow of the specification: first a business, then a lead of that business. The keys are alike, the operations are not. */
async function createWithLead(storm: Storm, caller: Caller): Promise<void> {
  const body = await createWithKey(storm, caller)
  if (body === undefined) return
  const client = JSON.parse(body).data
  await insist(storm, caller, {
    method: 'POST',
    path: '/api/v1/leads',
    idempotencyKey: client.business.name,
    body: { businessId: client.business.id },
  })
}

async function createWithoutKey(storm: Storm, caller: Caller): Promise<void> {
  const name = `unkeyed ${randomUUID()}`
  const { status } = await send(storm, caller, { method: 'POST', path: '/api/v1/clients', body: { name } })
  storm.unkeyed.set(name, status === 200)
}

/** Longer than any fault lasts: a key without an answer after this time will never have an answer. */
const GIVE_UP_MS = 12_000

/** Repeats a request with a key until an answer comes, as callers with a key may. */
async function insist(storm: Storm, caller: Caller, call: Call): Promise<string | undefined> {
  const entry = `${call.path} ${call.idempotencyKey}`
  const bodies = storm.replies.get(entry) ?? new Set()
  storm.replies.set(entry, bodies)
  const givesUpAt = performance.now() + GIVE_UP_MS
  while (performance.now() < givesUpAt) {
    const { status, body } = await send(storm, caller, call)
    if (status === 200) {
      bodies.add(body)
      return body
    }
    storm.retries++
    await sleep(50)
  }
  return undefined
}

async function send(storm: Storm, caller: Caller, call: Call): Promise<Answer> {
  const answer = await caller.send(call)
  storm.requests++
  storm.statuses.set(answer.status, (storm.statuses.get(answer.status) ?? 0) + 1)
  storm.slowestMs = Math.max(storm.slowestMs, answer.ms)
  if (answer.ms > SLOW_MS) storm.slow.push(call)
  return answer
}

/** A line for people. */
export function describeStorm({
  kills,
  requests,
  retries,
  statuses,
  slow,
  slowestMs,
  replies,
}: Storm): string {
  const counts = [...statuses].map(([status, count]) => `${status}: ${count}`).join(', ')
  return (
    `${kills} kills, ${requests} requests (${counts}), ${retries} retries, ${replies.size} keys, ` +
    `${slow.length} slower than ${SLOW_MS} ms, slowest ${Math.round(slowestMs)} ms`
  )
}

/** Asserts the rules about the answers of a storm. */
export function assertAnswers(storm: Storm): void {
  const expected: Answer['status'][] = [200, 409, 429, 503]
  assert.deepEqual(
    [...storm.statuses.keys()].filter((status) => !expected.includes(status)),
    [],
    'every request is answered, and with nothing else than 200, 409, 429 or 503',
  )
  const told = [...storm.replies].filter(([, bodies]) => bodies.size !== 1)
  assert.deepEqual(told, [], 'every idempotency key is answered with one body')
}

/** Asserts that each key, and each answered create without a key, worked exactly once in the database. */
export async function assertRecords(sql: Sql, storm: Storm): Promise<void> {
  const clients = await countByName(
    sql`
      select name from business_api.businesses where client_id is not null`,
  )
  const created = await countByName(
    sql`select body::jsonb #>> '{data,client,business,name}' as name from business_api.events where type = 'client.created'`,
  )
  assert.deepEqual(created, clients, 'every client has one client.created')

  for (const entry of storm.replies.keys()) {
    const [path, key = ''] = entry.split(' ')
    if (path === '/api/v1/clients') assert.equal(clients.get(key), 1, `key ${key} has one client`)
  }
  for (const [name, isKnown] of storm.unkeyed) {
    const count = clients.get(name) ?? 0
    assert.ok(isKnown ? count === 1 : count <= 1, `${name}, answered: ${isKnown}, has ${count} clients`)
  }
  await assertLeads(sql, storm)
}

async function assertLeads(sql: Sql, storm: Storm): Promise<void> {
  const leadKeys = [...storm.replies.keys()].filter((entry) => entry.startsWith('/api/v1/leads '))
  const leads = await countByName(
    sql`
      select b.name from business_api.leads l
      join business_api.businesses b on b.organization_id = l.organization_id and b.id = l.business_id`,
  )
  const created = await countByName(
    sql`
      select b.name from business_api.events e
      join business_api.businesses b
        on b.organization_id = e.organization_id and b.id = e.body::jsonb #>> '{data,businessId}'
      where e.type = 'lead.created'`,
  )
  const expected = new Map(leadKeys.map((entry) => [entry.split(' ')[1], 1] as const))
  assert.deepEqual([...leads].sort(), [...expected].sort(), 'every key of a lead has one lead')
  assert.deepEqual(created, leads, 'every lead has one lead.created')
}

async function countByName(rows: Promise<readonly { name?: string }[]>): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  for (const { name = '' } of await rows) counts.set(name, (counts.get(name) ?? 0) + 1)
  return new Map([...counts].sort())
}
