// A process that is stopped while it judges requests of two organizations, and callers that read nothing, beside the callers of another
// process on the same database.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { percentile } from '../_percentile.ts'
import { createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'
import { type Host, startHost } from './_host.ts'
import { callSteadily } from './_key-flood.ts'

const ROUNDS = 7
const STEADY = { count: 300, perSecond: 100 }
/** Callers of each organization at the process that is stopped. */
const CALLERS = 16
const SLOW_READERS = 8
/** The pages of a slow reader: more than fits the buffers of its connection, and of all slow readers fewer than may wait. */
const SLOW_PAGES = 60
/** Milliseconds until the buffers of the slow readers are full. */
const SETTLE_MS = 2000

test('a stopped process and slow readers cost the callers of another process nothing', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const [one, two] = [await makeApiKey(database.url, 'org_one'), await makeApiKey(database.url, 'org_two')]
  await fill(database.url, ['org_one', 'org_two'])
  const start = () =>
    startHost({ databaseUrl: database.url, pool: 'own', api: { rateLimit: UNREACHED_RATE_LIMIT } })
  const [stopped, serving] = [await start(), await start()]
  t.after(async () => {
    process.kill(stopped.pid, 'SIGCONT')
    await Promise.all([stopped.stop(), serving.stop()])
  })

  /** The p99 of both organizations at the process that goes on, in ms. Every answer is 200. */
  async function measure(what: string): Promise<number> {
    const { tookMs, statuses } = await callSteadily(serving.port, STEADY, (index) => {
      return index % 2 === 0 ? one.key : two.key
    })
    assert.deepEqual(statuses, new Set([200]), what)
    return percentile(tookMs, 0.99)
  }

  await measure('at the start')
  const ratios: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const quietMs = await measure('with an idle process')
    const readers = await startSlowReaders(t, serving, one.key)
    await sleep(SETTLE_MS)
    const endLoad = startLoad(t, stopped, [one.key, two.key])
    await sleep(300 + Math.random() * 100)
    process.kill(stopped.pid, 'SIGSTOP')
    const besideMs = await measure('beside a stopped process')
    t.diagnostic(`p99 ${quietMs.toFixed(1)} ms, beside a stopped process ${besideMs.toFixed(1)} ms`)
    ratios.push(besideMs / quietMs)
    readers.end()
    process.kill(stopped.pid, 'SIGCONT')
    for (const status of await endLoad()) assert.ok([200, 503].includes(Number(status)), `${status}`)
  }
  t.diagnostic(`p99 beside a stopped process: × ${ratios.map((ratio) => ratio.toFixed(2)).join(', ')}`)
  // Other programs on the machine are no failure.
  assert.ok(percentile(ratios, 0.5) <= 1.5, ratios.join(' '))
  serving.assertUnharmed()
  stopped.assertUnharmed()
})

/** Gives each organization so many clients that a page has some 50 kB. */
async function fill(databaseUrl: string, organizations: readonly string[]): Promise<void> {
  const store = createPostgresStore(databaseUrl)
  const { clients } = createPlatform(store)
  for (const organization of organizations) {
    for (let index = 0; index < 200; index++) await clients.create(organization, { name: `Client ${index}` })
  }
  await store.close()
}

/** Calls a process with all keys as fast as it answers. @returns ends the calls, and gives the statuses */
function startLoad(
  t: TestContext,
  { port }: Host,
  keys: readonly string[],
): () => Promise<ReadonlySet<unknown>> {
  const statuses = new Set<unknown>()
  let goesOn = true
  const callers = keys.map((key) => createCaller(port, key))
  const calls = callers.flatMap((caller) =>
    Array.from({ length: CALLERS }, async () => {
      while (goesOn) {
        // The caller gives up while the process is stopped.
        const { status } = await caller.send({ method: 'GET', path: '/api/v1/clients?limit=200' })
        if (status !== 'none') statuses.add(status)
      }
    }),
  )
  t.after(() => {
    goesOn = false
  })
  return async () => {
    goesOn = false
    await Promise.all(calls)
    for (const caller of callers) caller.close()
    return statuses
  }
}

/** Opens connections that ask for many pages and read nothing. */
async function startSlowReaders(t: TestContext, { port }: Host, key: string): Promise<{ end(): void }> {
  const head = `GET /api/v1/clients?limit=200 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`
  const sockets = await Promise.all(
    Array.from({ length: SLOW_READERS }, async () => {
      const socket = connect(port, '127.0.0.1').on('error', () => {})
      await once(socket, 'connect')
      socket.pause().write(head.repeat(SLOW_PAGES))
      return socket
    }),
  )
  const end = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  t.after(end)
  return { end }
}
