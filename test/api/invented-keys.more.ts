import assert from 'node:assert/strict'
import { tracingChannel } from 'node:diagnostics_channel'
import { after, before, describe, test } from 'node:test'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { generateApiKey } from '../../lib/access/api-keys.ts'
import type { StoreTrace } from '../../lib/base/tracing.ts'
import type { BusinessApi, BusinessApiStore } from '../../lib/index.ts'
import { type Answer, assertError, type Organization, request, startPlatform } from './_api.ts'

// Because a key's checksum is public, anyone can make up keys that pass the check. Callers with a valid key must not
// pay for them.

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/clients'
const FLOOD = 600

let organization: Organization
/** A deadline that is long enough for any machine. */
const ONE_MINUTE_MS = 60_000

before(async () => {
  organization = await platform.organization()
})

function call(api: BusinessApi, key: string, address = '203.0.113.1'): Promise<Answer> {
  return request(api, PATH, { key, headers: { 'x-real-ip': address } })
}

/** Starts an API that hasn't seen any keys yet, as in a new process. */
function startApi(store?: BusinessApiStore, deadlineMs = 5000): BusinessApi {
  return platform.apiWith(
    { rateLimit: false, deadlineMs, peerAddress: ({ header }) => header('x-real-ip') },
    store,
  )
}

/** Sends requests with made-up keys all at once and returns the responses. */
function flood(api: BusinessApi, count = FLOOD, address?: string) {
  const progress = { answered: 0 }
  const answers = Array.from({ length: count }, async () => {
    const answer = await call(api, generateApiKey('bapi', 0), address)
    progress.answered++
    return answer
  })
  return { progress, answers: Promise.all(answers) }
}

async function countCalls(work: () => Promise<unknown>): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  const start = (message: object): void => {
    const { verb } = message as StoreTrace
    counts[verb] = (counts[verb] ?? 0) + 1
  }
  const none = (): void => {}
  const subscribers = { start, end: none, asyncStart: none, asyncEnd: none, error: none }
  const channel = tracingChannel('business-api:store')
  channel.subscribe(subscribers)
  await work()
  channel.unsubscribe(subscribers)
  return counts
}

describe('Made-up keys', () => {
  test('share a single statement if they are sent during a lookup, up to a thousand', async () => {
    const { apiKeys } = platform.store
    const sizes: number[] = []
    const api = startApi(
      {
        ...platform.store,
        apiKeys: {
          ...apiKeys,
          async identify(digests) {
            sizes.push(digests.length)
            // Eight callers enter per turn of the event loop.
            if (sizes.length === 1) for (let turn = 0; turn < FLOOD; turn++) await setImmediate()
            return apiKeys.identify(digests)
          },
        },
      },
      ONE_MINUTE_MS,
    )
    await flood(api, 2 * FLOOD).answers
    const [first = 0] = sizes
    assert.deepEqual(sizes.slice(1), [1000, 2 * FLOOD - first - 1000])
  })

  test('cost one statement per dozen keys or more, even on a busy machine, and are rejected with 401', async () => {
    const api = startApi(undefined, ONE_MINUTE_MS)
    let answers: Answer[] = []
    const counts = await countCalls(async () => {
      answers = await flood(api, 2 * FLOOD).answers
    })
    for (const answer of answers) {
      assertError(answer, 401, 'Invalid, revoked or expired API key')
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer realm="api", error="invalid_token"')
    }
    assert.deepEqual(Object.keys(counts), ['identify'])
    assert.ok((counts.identify ?? 0) <= (2 * FLOOD) / 12, `${counts.identify} statements`)
  })

  test("don't hold up recently used keys or keys created in the meantime", async () => {
    const api = startApi()
    assert.equal((await call(api, organization.key)).status, 200)
    const { progress, answers } = flood(api)
    const known = call(api, organization.key)
    const { key } = await organization.createKey()
    const made = call(api, key)
    assert.equal((await known).status, 200)
    assert.equal((await made).status, 200)
    assert.ok(progress.answered < FLOOD / 2, `${progress.answered} answers to the flood were sent before`)
    await answers
  })

  test("don't hold up any key in a new process", async () => {
    /** Whether the key was served before half of the flood. On a busy machine, the flood may have the first turns. */
    async function isServedFirst(): Promise<boolean> {
      const api = startApi()
      const { progress, answers } = flood(api)
      assert.equal((await call(api, organization.key)).status, 200)
      const { answered } = progress
      await answers
      return answered < FLOOD / 2
    }
    for (let tries = 1; !(await isServedFirst()); tries++) assert.ok(tries < 5, 'the flood is served first')
  })

  test('wait for one lookup at a time, while known keys are served', async () => {
    const { apiKeys } = platform.store
    let release = (): void => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    let lookUps = 0
    const api = startApi({
      ...platform.store,
      apiKeys: {
        ...apiKeys,
        async identify(digests) {
          lookUps++
          if (lookUps > 1) await held
          return apiKeys.identify(digests)
        },
      },
    })
    assert.equal((await call(api, organization.key)).status, 200)
    const { answers } = flood(api, 200)
    assert.equal((await call(api, organization.key)).status, 200)
    assert.equal(lookUps, 2)
    release()
    assert.deepEqual(new Set((await answers).map(({ status }) => status)), new Set([401]))
  })

  test('become valid with the very next request after they are created', async () => {
    const api = startApi()
    const key = generateApiKey('bapi', 0)
    assert.equal((await call(api, key)).status, 401)
    await organization.createKey({ key })
    assert.equal((await call(api, key)).status, 200)
  })
})

describe('401 responses', () => {
  test('are spaced out beyond that, with addresses taking turns', async () => {
    const api = startApi()
    const { progress, answers } = flood(api, FLOOD, '203.0.113.1')
    await sleep(300)
    assert.equal((await call(api, generateApiKey('bapi', 0), '203.0.113.2')).status, 401)
    assert.ok(progress.answered < FLOOD / 2, `${progress.answered} answers to the flood were sent before`)
    await answers
  })

  test('are sent within the time limit of a request, even if many are waiting', async () => {
    const api = startApi()
    const answers = await Promise.all(
      Array.from({ length: 2 * FLOOD }, (_, index) => call(api, 'no key', `203.0.113.${index % 250}`)),
    )
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([401]))
  })
})
