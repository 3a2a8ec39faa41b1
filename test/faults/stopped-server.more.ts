import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { startPostgres } from '../../examples/demo/postgres.ts'
import { migrate } from '../../lib/postgres.ts'
import { type Caller, createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'
import { startHost } from './_host.ts'

// A separate server, because stopping the server of DATABASE_URL would fail the other tests.
const server = await startPostgres()
after(() => server.stop())
await migrate(server.url)
const { key } = await makeApiKey(server.url, 'org_stopped')

const CALLERS = 16

for (const mode of ['fast', 'immediate'] as const) {
  test(`PostgreSQL stopped (${mode}) and started: 503 meanwhile, then service without a restart of the host`, async (t) => {
    const own = await startCaller(t, 'own')
    const hosts = await startCaller(t, 'host')
    const callers = [own, hosts]
    await Promise.all(callers.map((caller) => listAtOnce(caller, 200)))
    const ends = callers.map((caller) => keepListing(t, caller))

    await server.stopServer(mode)
    const refused = await Promise.all(callers.map((caller) => listAtOnce(caller, 503)))
    await server.startServer()

    const backMs = await Promise.all(
      callers.map((caller) => until('all is served', () => isServed(caller), 20_000)),
    )
    for (const end of ends) assert.deepEqual(await end(), [], 'only 200 and 503 at any time')
    await Promise.all(callers.map(create))
    t.diagnostic(
      `slowest 503 after ${Math.round(Math.max(...refused.flat()))} ms, ` +
        `service ${Math.round(Math.max(...backMs))} ms after the start`,
    )
  })
}

async function startCaller(t: TestContext, pool: 'own' | 'host'): Promise<Caller> {
  const host = await startHost({ databaseUrl: server.url, pool, api: { rateLimit: UNREACHED_RATE_LIMIT } })
  const caller = createCaller(host.port, key)
  // Hooks run in the order of registration.
  t.after(() => host.assertUnharmed())
  t.after(() => caller.close())
  t.after(() => host.stop())
  return caller
}

async function create(caller: Caller): Promise<void> {
  const answer = await caller.send({ method: 'POST', path: '/api/v1/clients', body: { name: 'Afterwards' } })
  assert.equal(answer.status, 200)
}

/** As many lists as reach every connection; gives how long each took. */
async function listAtOnce(caller: Caller, expected: 200 | 503): Promise<number[]> {
  const answers = await Promise.all(Array.from({ length: CALLERS }, () => list(caller)))
  for (const { status, headers } of answers) {
    assert.equal(status, expected)
    if (status === 503) assert.equal(headers['retry-after'], '1')
  }
  return answers.map(({ ms }) => ms)
}

/** True after two served rounds in a row: a single round could have met good connections by chance. */
async function isServed(caller: Caller): Promise<boolean> {
  for (let round = 0; round < 2; round++) {
    const answers = await Promise.all(Array.from({ length: CALLERS }, () => list(caller)))
    if (answers.some(({ status }) => status !== 200)) return false
  }
  return true
}

/** Lists all the time until told to stop, or until the test ends; gives the statuses that should not have been. */
function keepListing(t: TestContext, caller: Caller): () => Promise<unknown[]> {
  let goesOn = true
  const unexpected: unknown[] = []
  async function work(): Promise<void> {
    while (goesOn) {
      const { status } = await list(caller)
      if (goesOn && status !== 200 && status !== 503) unexpected.push(status)
    }
  }
  const workers = Array.from({ length: 4 }, work)
  async function end(): Promise<unknown[]> {
    goesOn = false
    await Promise.all(workers)
    return unexpected
  }
  t.after(end)
  return end
}

function list(caller: Caller): ReturnType<Caller['send']> {
  return caller.send({ method: 'GET', path: '/api/v1/clients' })
}
