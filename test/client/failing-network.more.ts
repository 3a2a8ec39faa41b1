import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type ApiClient, ApiError, type Client, createApiClient, type Lead } from '../../lib/client.ts'
import { startPlatform, type TestPlatform } from '../examples/_platform.ts'
import { collect } from './_answers.ts'
import { FAILURES, type FailingNetwork, type Step, startFailingNetwork } from './_failing-network.ts'

// Uses the real client, sockets, API and PostgreSQL. Only the waits return immediately.

/**
 * Shorter than an attempt's usual timeout because one step never responds, but longer than the API needs on
 * a busy machine.
 */
const TIMEOUT_MS = 3000

describe('the client on a network that fails at every step', () => {
  let platform: TestPlatform
  let network: FailingNetwork
  before(async () => {
    platform = await startPlatform()
    network = await startFailingNetwork(platform.url)
  })
  after(async () => {
    network?.close()
    await platform?.close()
  })

  /** Creates a client whose attempts go through the given steps in turn. All others pass. */
  function connect(steps: readonly Step[]): ApiClient {
    const remaining = [...steps]
    network.counts.clear()
    network.next = () => remaining.shift() ?? 'passes'
    return createApiClient({
      ...{ url: `${network.url}/`, key: platform.key, timeoutMs: TIMEOUT_MS },
      ...{ maxRetries: FAILURES.length + 1, maxDurationMs: 600_000 },
      fetch: network.fetch,
      wait: async () => {},
    })
  }

  const truth = () => createApiClient({ url: platform.url, key: platform.key, timeoutMs: 60_000 })
  const clientsCalled = async (name: string): Promise<Client[]> =>
    (await collect(truth().clients.list())).filter(({ business }) => business.name === name)

  for (const step of FAILURES) {
    test(`a client and a lead are created once if each first attempt and the next is ${step}`, async () => {
      const api = connect([step, step])
      const client = await api.clients.create({ name: `Each ${step}` })
      assert.deepEqual(await clientsCalled(`Each ${step}`), [client])
      assert.equal(network.counts.get(step), 2)

      const leads = await collect(truth().leads.list())
      const lead: Lead = await connect([step, step]).leads.create({ businessId: client.business.id })
      assert.deepEqual(await collect(truth().leads.list()), [lead, ...leads])
      assert.equal(network.counts.get(step), 2)
    })
  }

  test('a client is created once if attempts fail at each step in turn', async () => {
    const client = await connect(FAILURES).clients.create({ name: 'Every step' })
    assert.deepEqual(await clientsCalled('Every step'), [client])
    assert.equal(network.counts.size, FAILURES.length + 1)
  })

  test("a create that gave up is completed by a later call with the error's key", async () => {
    const endless = Array.from({ length: 100 }, () => 'carried out, and the answer lost' as const)
    const error = await connect(endless)
      .clients.create({ name: 'Later' })
      .then(() => assert.fail('succeeded'))
      .catch((reason: unknown) => reason)
    assert.ok(error instanceof ApiError && error.isTransient && error.idempotencyKey !== null)
    const { idempotencyKey } = error
    assert.equal(error.attempts, FAILURES.length + 2)
    const client = await connect([]).clients.create({ name: 'Later' }, { idempotencyKey })
    assert.deepEqual(await clientsCalled('Later'), [client])
  })

  for (const retryAfter of ['99999999999', 'Fri, 31 Dec 2100 23:59:59 GMT']) {
    test(`a create that is asked to wait until ${retryAfter} fails immediately, and a later call creates the record once`, async () => {
      const name = `Far ${retryAfter}`
      const waits: number[] = []
      const api = createApiClient({
        ...{ url: platform.url, key: platform.key },
        // The request is executed, but a proxy responds.
        async fetch(url, init) {
          await (await fetch(url, init)).text()
          return new Response('<html>', { status: 503, headers: { 'Retry-After': retryAfter } })
        },
        wait: async (ms) => void waits.push(ms),
      })
      const error = await api.clients.create({ name }).then(
        () => assert.fail('succeeded'),
        (reason: unknown) => reason,
      )
      assert.ok(error instanceof ApiError && error.isTransient && error.idempotencyKey !== null)
      assert.deepEqual([error.attempts, error.retryAfterMs, waits], [1, 86_400_000, []])
      const { idempotencyKey } = error
      const client = await connect([]).clients.create({ name }, { idempotencyKey })
      assert.deepEqual(await clientsCalled(name), [client])
    })
  }

  test('of forty clients created concurrently, with four in five attempts failing at random, each is created once', async () => {
    const api = connect([])
    const quick = FAILURES.filter((step) => !step.includes('too long'))
    let state = 7
    network.next = () => {
      state = (state * 48_271) % 2_147_483_647
      return state % 5 === 0 ? 'passes' : (quick[state % quick.length] ?? 'passes')
    }
    const names = Array.from({ length: 40 }, (_, index) => `Random ${index}`)
    const make = async (name: string): Promise<Client> => {
      // A call may give up like a job, whose next run uses the same key.
      for (;;) {
        try {
          return await api.clients.create({ name }, { idempotencyKey: name.replace(' ', '-') })
        } catch (error) {
          if (!(error instanceof ApiError && error.isTransient)) throw error
        }
      }
    }
    const made = await Promise.all(names.map(make))
    const listed = (await collect(truth().clients.list())).filter(({ business }) =>
      /^Random/.test(business.name),
    )
    assert.deepEqual(
      new Map(listed.map((client) => [client.id, client])),
      new Map(made.map((one) => [one.id, one])),
    )
    assert.equal(listed.length, names.length)
    const failed = [...network.counts].reduce(
      (sum, [step, count]) => sum + (step === 'passes' ? 0 : count),
      0,
    )
    assert.ok(failed > 80, `${failed} attempts failed`)
  })
})
