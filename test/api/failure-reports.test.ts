import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { describe, mock, test } from 'node:test'
import { pino } from 'pino'
import { createBusinessApi, type Logger } from '../../lib/index.ts'
import { rawHead, rawRequest, request, serve } from './_api.ts'
import {
  allOf,
  assertInternal,
  CREATE,
  key,
  PATH,
  platform,
  postgresError,
  strays,
  watched,
  withApiKeys,
  withClients,
} from './_failures.ts'
import { settle } from './_strays.ts'

describe('onError and logger', () => {
  const broken = withClients({ admitAndList: () => Promise.reject(postgresError()) })
  const brokenLine = () => {
    throw new Error('the logger is broken')
  }
  const brokenLogger: Logger = { debug: brokenLine, info: brokenLine, warn: brokenLine, error: brokenLine }

  test("If onError throws, the caller isn't affected and the error is logged", async () => {
    const { api, lines } = watched(broken, { onError: brokenLine })
    assertInternal(await request(api, PATH, { key }))
    assert.equal(lines.length, 2)
    assert.ok(allOf(lines[1]).includes('the logger is broken'))
  })

  test('If onError rejects, neither the caller nor the process is affected', async () => {
    const { api } = watched(broken, {
      onError: async () => {
        throw new Error('the report could not be sent')
      },
    })
    assertInternal(await request(api, PATH, { key }))
    await settle()
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test("If the logger throws, the caller isn't affected", async () => {
    const { api } = watched(broken, { logger: brokenLogger })
    assertInternal(await request(api, PATH, { key }))
  })

  test('If an async logger rejects, neither the caller nor the process is affected', async () => {
    const line = async () => brokenLine()
    const { api } = watched(broken, { logger: { debug: line, info: line, warn: line, error: line } })
    assertInternal(await request(api, PATH, { key }))
    await settle()
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test('If the logger throws, onError still receives the failure', async () => {
    const { api, failures } = watched(broken, { logger: brokenLogger })
    assertInternal(await request(api, PATH, { key }))
    assert.equal(failures.length, 1)
  })

  test("If both the logger and onError throw, the caller isn't affected", async () => {
    const { api } = watched(broken, { logger: brokenLogger, onError: brokenLine })
    assertInternal(await request(api, PATH, { key }))
  })

  test("If the logger throws because the last use couldn't be recorded, the process keeps running", async () => {
    const { key: unused } = await (await platform.organization()).createKey()
    const store = withApiKeys({ markUsed: () => Promise.reject(new Error('not now')) })
    const { api } = watched(store, { logger: brokenLogger })
    assert.equal((await request(api, PATH, { key: unused })).status, 200)
    await settle()
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test('logger: false disables logging but not onError', async () => {
    const error = mock.method(console, 'error', () => {})
    try {
      const { api, failures } = watched(broken, { logger: false })
      assertInternal(await request(api, PATH, { key }))
      assert.equal(failures.length, 1)
      assert.equal(error.mock.callCount(), 0)
    } finally {
      error.mock.restore()
    }
  })

  test('The default logger writes failures to stderr as lines of JSON, and nothing below warn', async () => {
    const spies = (['error', 'warn', 'log', 'info', 'debug'] as const).map((name) =>
      mock.method(console, name, () => {}),
    )
    const output = mock.method(process.stdout, 'write', () => true)
    try {
      const quiet = createBusinessApi(platform.store)
      await request(quiet, PATH, CREATE)
      await request(quiet, PATH)
      await request(quiet, '/nowhere')
      const written = spies.map((spy) => spy.mock.callCount())
      const loud = createBusinessApi(broken)
      await request(loud, PATH, { key })
      output.mock.restore()
      assert.deepEqual(written, [0, 0, 0, 0, 0])
      assert.deepEqual(
        spies.map((spy) => spy.mock.callCount()),
        [1, 0, 0, 0, 0],
      )
      const line: unknown = JSON.parse(String(spies[0]?.mock.calls[0]?.arguments[0]))
      assert.ok(typeof line === 'object' && line !== null && 'level' in line && 'message' in line)
      assert.equal(line.level, 'error')
    } finally {
      output.mock.restore()
      for (const spy of spies) spy.mock.restore()
    }
  })

  test('pino can be used as the logger', async () => {
    const lines: string[] = []
    const sink = new Writable({
      write(chunk, _, done) {
        lines.push(String(chunk))
        done()
      },
    })
    const { api } = watched(broken, { logger: pino({ level: 'debug' }, sink) })
    const answer = await request(api, PATH, { key })
    assertInternal(answer)
    assert.equal(lines.length, 1)
    const line: unknown = JSON.parse(lines[0] ?? '')
    assert.ok(typeof line === 'object' && line !== null && 'requestId' in line && 'level' in line)
    assert.equal(line.level, 50)
    assert.equal(line.requestId, answer.headers.get('x-request-id'))
  })

  test('API keys are never logged, returned or passed to onError', async () => {
    const secret = key.slice(-49)
    for (const store of [
      broken,
      platform.store,
      withApiKeys({ admit: () => Promise.reject(postgresError()) }),
      withApiKeys({ markUsed: () => Promise.reject(postgresError()) }),
      withClients({ create: () => new Promise<never>(() => {}) }),
    ]) {
      const { api, lines, failures } = watched(store, { deadlineMs: 200 })
      const answers = [
        await request(api, `${PATH}?key=${key}`, { key }),
        await request(api, PATH, CREATE),
        await request(api, PATH, { headers: { Authorization: `Basic ${key}` } }),
        await request(api, PATH, { headers: { Authorization: `Bearer ${key}x` } }),
        await request(api, PATH, { key, json: { name: 'A', [key]: key } }),
      ]
      await settle()
      const said = allOf([lines, failures, answers.map(({ text, headers }) => [text, ...headers])])
      assert.ok(!said.includes(secret))
    }
  })
})

describe('A host that has already responded', () => {
  test("A response from the host isn't changed", async (t) => {
    const { api, failures } = watched(platform.store)
    const own = await serve((incoming, response) => {
      response.writeHead(299, { 'Content-Length': '4' }).end('host')
      return api(incoming, response)
    })
    t.after(() => own.close())
    const answer = await rawRequest(own, rawHead(`GET ${PATH}`, `Authorization: Bearer ${key}`))
    assert.equal(answer.status, 299)
    assert.equal(answer.text, 'host')
    await Promise.all(own.calls)
    assert.deepEqual(failures, [])
  })

  test("A response sent by the host while the store is being queried isn't changed", async (t) => {
    let answerNow = (): void => {}
    const store = withClients({
      async admitAndList(asked, limit) {
        answerNow()
        return platform.store.clients.admitAndList(asked, limit)
      },
    })
    const { api, failures } = watched(store)
    const own = await serve((incoming, response) => {
      answerNow = () => response.writeHead(299, { 'Content-Length': '4' }).end('host')
      return api(incoming, response)
    })
    t.after(() => own.close())
    const answer = await rawRequest(own, rawHead(`GET ${PATH}`, `Authorization: Bearer ${key}`))
    assert.equal(answer.status, 299)
    await Promise.all(own.calls)
    assert.deepEqual(failures, [])
  })

  test("A destroyed response isn't changed", async (t) => {
    const { api, failures } = watched(platform.store)
    const own = await serve((incoming, response) => {
      const answered = api(incoming, response)
      response.destroy()
      return answered
    })
    t.after(() => own.close())
    const connection = await own.connect()
    connection.send(rawHead(`GET ${PATH}`, `Authorization: Bearer ${key}`))
    await connection.closed
    await Promise.all(own.calls)
    assert.deepEqual(failures, [])
  })

  test('Headers set by the host are kept, but ours take precedence', async (t) => {
    const { api } = watched(platform.store)
    const own = await serve((incoming, response) => {
      response.setHeader('X-Powered-By', 'host')
      response.setHeader('x-request-id', 'host')
      response.setHeader('cache-control', 'public')
      return api(incoming, response)
    })
    t.after(() => own.close())
    const answer = await rawRequest(own, rawHead(`GET ${PATH}`, `Authorization: Bearer ${key}`))
    assert.equal(answer.headers.get('x-powered-by'), 'host')
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.match(answer.headers.get('x-request-id') ?? '', /^req_/)
  })
})
