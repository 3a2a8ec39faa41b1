// One of three servers fails in every way, beside callers of the two others in a process that knows their keys, and in processes that
// have just started, with a key without a slot, which every shard may have.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { SCOPES } from '../../lib/index.ts'
import { createPostgresStore, createShardedStore, migrate } from '../../lib/postgres.ts'
import { makeOlderKey } from '../_older-key.ts'
import { percentile } from '../_percentile.ts'
import { startPrimary, startReplica } from '../postgres/_replica.ts'
import { createTestShards, organizationOn } from '../store/_shards.ts'
import { type Caller, createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'
import { startHost } from './_host.ts'

const ROUNDS = 7
const ROUND_MS = 2000
/** Processes that are started beside the silent server, and as many without. */
const STARTS = 3
/** A silent server is left after some seconds. */
const RETURN_MS = 20_000

test('a shard that is silent, stopped, in recovery or failed over costs the others nothing', async (t) => {
  const shards = await createTestShards()
  t.after(() => shards.drop())
  const first = await startPrimary()
  t.after(() => first.remove())
  await migrate(first.url)
  const second = await startReplica(first)
  t.after(() => second.remove())

  const [a = '', b = ''] = shards.databases.map(({ url }) => url)
  const hosts = `127.0.0.1:${first.port},127.0.0.1:${second.port}`
  const c = `${first.url.replace(/127\.0\.0\.1:\d+/, hosts)}?target_session_attrs=read-write`
  await begin({ a, b, c })
  const keyOf = async (name: 'a' | 'b' | 'c', url: string) =>
    (await makeApiKey(url, organizationOn(name))).key
  const config = {
    databaseUrl: '',
    shards: { a, b, c },
    pool: 'own',
    api: { rateLimit: UNREACHED_RATE_LIMIT },
  } as const
  const host = await startHost(config)
  t.after(() => host.stop())
  const callers = [await keyOf('a', a), await keyOf('b', b), await keyOf('c', first.url), makeOlderKey()].map(
    (key) => createCaller(host.port, key),
  ) as [Caller, Caller, Caller, Caller]
  for (const caller of callers) t.after(() => caller.close())
  const [ofA, ofB, ofC, unknown] = callers
  const isServed = async () => (await list(ofC)).status === 200
  for (const caller of [ofA, ofB, ofC]) assert.equal((await list(caller)).status, 200)

  /** Calls for the others, beside calls for the failing shard. @returns the p99 of the others, in ms */
  async function round(what: string, statuses: readonly unknown[]): Promise<number> {
    const endsAt = performance.now() + ROUND_MS
    const times: number[] = []
    const others = [ofA, ofB].map(async (caller) => {
      while (performance.now() < endsAt) {
        for (const answer of [await list(caller), await create(caller)]) {
          assert.equal(answer.status, 200, what)
          times.push(answer.ms)
        }
        await sleep(5)
      }
    })
    const failing = Promise.all([list(ofC), create(ofC), list(ofC)])
    await Promise.all(others)
    for (const { status } of await failing) assert.ok(statuses.includes(status), `${what}: ${status}`)
    return percentile(times, 0.99)
  }

  const older = await addOlderKey(a, organizationOn('a'))

  /** Calls in a process that has just started. @returns the first answer's time and the p99, in ms */
  async function start(what: string): Promise<{ readonly first: number; readonly p99: number }> {
    const started = await startHost(config)
    const caller = createCaller(started.port, older)
    const times: number[] = []
    for (const endsAt = performance.now() + ROUND_MS; performance.now() < endsAt; await sleep(5)) {
      const answer = await list(caller)
      assert.equal(answer.status, 200, what)
      times.push(answer.ms)
    }
    caller.close()
    await started.stop()
    return { first: times[0] ?? Number.NaN, p99: percentile(times, 0.99) }
  }

  const ratios: number[] = []
  const startRatios: number[] = []
  for (let count = 0; count < ROUNDS; count++) {
    const present = await round('all are there', [200])
    const started = count < STARTS ? await start('all are there') : undefined
    signal(first.pid, 'STOP')
    try {
      if (started) {
        const beside = await start('silent')
        startRatios.push(beside.p99 / started.p99)
        assert.ok(beside.first < started.first + 1000, `the first answer came after ${beside.first} ms`)
      }
      ratios.push((await round('silent', [503])) / present)
      if (count === 0) assert.equal((await list(unknown)).status, 503, 'a key that the silent shard may have')
    } finally {
      signal(first.pid, 'CONT')
    }
    await until('the shard answers again', isServed, RETURN_MS)
  }
  assert.equal((await list(unknown)).status, 401)
  t.diagnostic(`p99 of the others beside a silent shard: × ${describe(ratios)}`)
  t.diagnostic(`in a process that has just started, with a key without a slot: × ${describe(startRatios)}`)

  await first.stopServer('immediate')
  await round('stopped, and the replica in recovery', [503])
  await promote(t, second.url)
  await until('the replica serves', isServed, RETURN_MS)
  await round('failed over', [200])
  // A wait for the silent shard would be a thousand times as long. Other programs on the machine are no failure.
  for (const each of [ratios, startRatios]) assert.ok(percentile(each, 0.5) < 3, describe(each))
  host.assertUnharmed()
})

/** Gives an organization a key from before keys carried a slot. */
async function addOlderKey(url: string, organizationId: string): Promise<string> {
  const key = makeOlderKey()
  const sql = postgres(url, { max: 1 })
  await sql`
    insert into business_api.api_keys (organization_id, id, digest, name, scopes, prefix, last_four, created_at)
    values (${organizationId}, 'key_older', ${digestApiKey(key)}, 'Older', ${`{${SCOPES.join()}}`}::text::text[], 'bapi_live_', ${key.slice(-4)}, now())`
  await sql.end()
  return key
}

/** Writes the map, as the first start does. */
async function begin(urls: Readonly<Record<string, string>>): Promise<void> {
  const stores = Object.entries(urls).map(([name, url]) => [name, createPostgresStore(url)] as const)
  const store = createShardedStore({ shards: Object.fromEntries(stores) })
  await store.shardOf('org')
  await store.close()
}

const list = (caller: Caller) => caller.send({ method: 'GET', path: '/api/v1/clients' })

function create(caller: Caller) {
  const body = { name: 'Atlas Ceramics' }
  return caller.send({ method: 'POST', path: '/api/v1/clients', body, idempotencyKey: randomUUID() })
}

/** Sends a signal to a server and all of its processes. */
function signal(pid: number | undefined, name: 'STOP' | 'CONT'): void {
  assert.ok(pid)
  const children = execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)]).toString()
  for (const each of [pid, ...children.trim().split(/\s+/).map(Number)]) process.kill(each, `SIG${name}`)
}

async function promote(t: TestContext, url: string): Promise<void> {
  const sql = postgres(url, { max: 1 })
  t.after(() => sql.end())
  await sql`select pg_promote()`
}

function describe(ratios: readonly number[]): string {
  return `${percentile(ratios, 0.5).toFixed(2)} (${ratios.map((ratio) => ratio.toFixed(2)).join(', ')})`
}
