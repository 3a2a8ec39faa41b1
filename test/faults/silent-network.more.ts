import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { createTestDatabase } from '../_database.ts'
import { type Answer, type Caller, createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'
import { type Host, startHost } from './_host.ts'
import { type NetworkProxy, startProxy } from './_proxy.ts'

// Shorter than the default of five seconds, to save the tests' time; longer than the answer of a busy machine takes.
const DEADLINE_MS = 1000
const MARGIN_MS = 3000
const CALLERS = 20
// So few that counts never given back would soon refuse everything.
const MAX_PENDING = 2 * CALLERS

// Each test has a separate network and mostly waits.
describe('the network between store and database', { concurrency: true }, () => {
  test('a silent network: 503 at the deadline, and service when the network speaks again', async (t) => {
    const { proxy, host, caller } = await start(t)
    proxy.fallSilent()
    for (let round = 0; round < 2; round++) assertAtDeadline(await listAtOnce(caller))
    proxy.speak()

    await assertServiceReturns(t, caller)
    host.assertUnharmed()
  })

  test('a silent network that breaks the old connections and takes new ones: service returns', async (t) => {
    const { proxy, host, caller } = await start(t)
    proxy.fallSilent()
    assertAtDeadline(await listAtOnce(caller))
    proxy.speakOnNewConnections()
    proxy.reset()

    await assertServiceReturns(t, caller)
    host.assertUnharmed()
  })

  test('connections that broke during statements are replaced', async (t) => {
    const { proxy, host, caller } = await start(t)

    for (let round = 0; round < 10; round++) {
      const answers = listAtOnce(caller)
      await until('statements are under way', () => proxy.size > 0, 30_000)
      proxy.reset()
      assertStatuses(await answers, [200, 503])
    }

    await assertServiceReturns(t, caller)
    host.assertUnharmed()
  })

  test('connections that stay silent for good beside working new connections are given up', async (t) => {
    const { proxy, host, caller } = await start(t)
    proxy.fallSilent()
    proxy.speakOnNewConnections()
    const [first] = await Promise.all([list(caller), list(caller)])
    assertAtDeadline([first])

    await assertServiceReturns(t, caller)
    host.assertUnharmed()
  })
})

async function start(t: TestContext): Promise<{ proxy: NetworkProxy; host: Host; caller: Caller }> {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const { key } = await makeApiKey(database.url, 'org_silent')
  const others = Array.from({ length: CALLERS }, (_, index) => makeApiKey(database.url, `org_${index}`))
  const keys = (await Promise.all(others)).map((made) => made.key)
  const proxy = await startProxy(database.url)
  t.after(() => proxy.close())
  const host = await startHost({
    databaseUrl: proxy.url,
    pool: 'own',
    // An organization has half of the connections.
    store: { statementTimeoutMs: DEADLINE_MS, maxPending: MAX_PENDING, maxConnections: CALLERS },
    api: { deadlineMs: DEADLINE_MS, rateLimit: UNREACHED_RATE_LIMIT },
  })
  t.after(() => host.stop())
  const caller = createCaller(host.port, key)
  t.after(() => caller.close())
  const creators = keys.map((each) => createCaller(host.port, each))
  t.after(() => creators.map((creator) => creator.close()))
  // On a busy machine opening so many connections at once can take longer than the deadline.
  await until(
    'the connections are open',
    // Lists share connections, and so do the creates of an organization; each organization's create has its own.
    async () => (await Promise.all(creators.map(create))).every(({ status }) => status === 200),
    30_000,
  )
  return { proxy, host, caller }
}

function list(caller: Caller): Promise<Answer> {
  return caller.send({ method: 'GET', path: '/api/v1/clients' })
}

function create(caller: Caller): Promise<Answer> {
  return caller.send({ method: 'POST', path: '/api/v1/clients', body: { name: 'Atlas Ceramics' } })
}

function listAtOnce(caller: Caller): Promise<Answer[]> {
  return Promise.all(Array.from({ length: CALLERS }, () => list(caller)))
}

function assertStatuses(answers: readonly Answer[], expected: readonly Answer['status'][]): void {
  const unexpected = answers.map(({ status }) => status).filter((status) => !expected.includes(status))
  assert.deepEqual(unexpected, [])
}

function assertAtDeadline(answers: readonly Answer[]): void {
  assertStatuses(answers, [503])
  for (const { ms, headers } of answers) {
    assert.equal(headers['retry-after'], '1')
    assert.ok(ms < DEADLINE_MS + MARGIN_MS, `answered only after ${Math.round(ms)} ms`)
  }
}

async function assertServiceReturns(t: TestContext, caller: Caller): Promise<void> {
  const backMs = await until(
    'all is served',
    async () => (await listAtOnce(caller)).every(({ status }) => status === 200),
    30_000,
  )
  t.diagnostic(`service was back after ${Math.round(backMs)} ms`)
  // Not by luck: more requests than connections, several times.
  for (let round = 0; round < 3; round++) assertStatuses(await listAtOnce(caller), [200])
}
