import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { after, afterEach, describe, mock, test } from 'node:test'
import { pino } from 'pino'
import postgres from 'postgres'
import {
  type BusinessApiOptions,
  type BusinessApiStore,
  createBusinessApi,
  type Logger,
} from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { storeUnavailable } from '../../lib/store.ts'
import {
  type Answer,
  assertError,
  type Failure,
  rawHead,
  rawRequest,
  record,
  recordOf,
  request,
  serve,
  settle,
  startPlatform,
  watchStrays,
} from './_api.ts'

const strays = watchStrays()
const platform = await startPlatform()
const { id: organizationId, key, keyId } = await platform.organization()

// A test whose stray error is found later would blame the next one.
afterEach(async () => {
  await settle()
  assert.deepEqual(strays.splice(0), [])
})
after(() => platform.close())

const PATH = '/api/v1/clients'
const CREATE = { key, json: { name: 'Atlas' } }

/** The store with some verbs of the clients' slice replaced. */
function withClients(verbs: Partial<BusinessApiStore['clients']>): BusinessApiStore {
  return { ...platform.store, clients: { ...platform.store.clients, ...verbs } }
}

/** The store with some verbs of the API keys' slice replaced. */
function withApiKeys(verbs: Partial<BusinessApiStore['apiKeys']>): BusinessApiStore {
  return { ...platform.store, apiKeys: { ...platform.store.apiKeys, ...verbs } }
}

/** A store whose every verb that a request needs ends the same way. */
function failing(fail: () => Promise<never>): BusinessApiStore {
  const { store } = platform
  return {
    ...store,
    apiKeys: { ...store.apiKeys, admit: fail },
    clients: { ...store.clients, admitAndList: fail, create: fail },
    leads: { ...store.leads, admitAndList: fail, create: fail },
    invoices: { ...store.invoices, admitAndList: fail, create: fail },
    proposals: { ...store.proposals, admitAndList: fail, create: fail },
    projects: { ...store.projects, admitAndList: fail, create: fail },
  }
}

interface LoggedLine {
  readonly level: string
  readonly details: object
  readonly message: string
}

/** A logger that keeps what it is told. */
function keepingLogger(lines: LoggedLine[]): Logger {
  const keep = (level: string) => (details: object, message: string) => {
    lines.push({ level, details, message })
  }
  return { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') }
}

/** An API that keeps what its logger and its onError hear. */
function watched(store: BusinessApiStore, options: BusinessApiOptions = {}) {
  const lines: LoggedLine[] = []
  const failures: Failure[] = []
  const api = createBusinessApi(store, {
    rateLimit: false,
    logger: keepingLogger(lines),
    onError: record(failures),
    ...options,
  })
  return { api, lines, failures }
}

function assertUnavailable(answer: Answer): void {
  assertError(answer, 503, 'Service temporarily unavailable')
  assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
}

function assertInternal(answer: Answer): void {
  assertError(answer, 500, 'Internal error')
  assert.equal(answer.headers.get('retry-after'), null)
}

/** Everything of an error and of what it holds, as text. */
function allOf(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    each instanceof Error
      ? { ...each, name: each.name, message: each.message, stack: each.stack, cause: each.cause }
      : each,
  )
}

/** As PostgreSQL reports a broken constraint: with the data that broke it. */
function postgresError(): Error {
  return Object.assign(new Error('duplicate key value violates unique constraint "clients_pkey"'), {
    name: 'PostgresError',
    severity: 'ERROR',
    code: '23505',
    detail: 'Key (email)=(customer@secret.example) already exists.',
    hint: 'secret hint',
    where: 'secret where',
    schema_name: 'business_api',
    table_name: 'clients',
    constraint_name: 'clients_pkey',
    query: 'insert into business_api.clients values ($1)',
    parameters: ['customer@secret.example'],
  })
}

describe('A store that cannot be reached', () => {
  const unreachable = () =>
    Promise.reject(storeUnavailable('Cannot reach PostgreSQL', new Error('ECONNREFUSED 10.0.0.7')))

  for (const path of ['clients', 'leads', 'invoices', 'proposals', 'projects']) {
    test(`GET /${path} is 503 with Retry-After`, async () => {
      const { api } = watched(failing(unreachable))
      const answer = await request(api, `/api/v1/${path}`, { key })
      assertUnavailable(answer)
      assert.ok(!answer.text.includes('10.0.0.7'))
    })
  }

  test('POST /clients is 503 when the key cannot be judged, and when the client cannot be written', async () => {
    assertUnavailable(await request(watched(failing(unreachable)).api, PATH, CREATE))
    assertUnavailable(await request(watched(withClients({ create: unreachable })).api, PATH, CREATE))
  })

  test('The rate limits never open: a request is 503 when they cannot be judged', async () => {
    const { api } = watched(withApiKeys({ admit: unreachable }))
    assertUnavailable(await request(api, PATH, CREATE))
    assertUnavailable(await request(api, `${PATH}?limit=0`, { key }))
  })

  test('What needs no store is still answered', async () => {
    const { api, failures } = watched(failing(unreachable))
    assertError(await request(api, PATH), 401)
    assertError(await request(api, PATH, { key: 'bad' }), 401)
    assertError(await request(api, '/nowhere'), 404)
    assertError(await request(api, PATH, { method: 'PUT' }), 405)
    assert.equal((await request(api, '/openapi.json')).status, 200)
    assert.deepEqual(failures, [])
  })

  test('A PostgreSQL store without its database is 503, and also once it is closed', async () => {
    const nowhere = createPostgresStore('postgres://nobody:secret@127.0.0.1:1/nothing')
    const { api, failures, lines } = watched(nowhere)
    const answer = await request(api, PATH, { key })
    assertUnavailable(answer)
    assert.equal(failures.length, 1)
    assert.ok(!allOf(lines).includes('secret'))
    await nowhere.close()
    assertUnavailable(await request(api, PATH, { key }))
  })

  test('onError hears of it with status 503, the logger with warn', async () => {
    const { api, failures, lines } = watched(withClients({ admitAndList: unreachable }))
    const answer = await request(api, `${PATH}?limit=3&token=secret`, { key })
    assert.equal(failures.length, 1)
    assert.deepEqual(failures[0]?.context, {
      requestId: answer.headers.get('x-request-id'),
      method: 'GET',
      path: PATH,
      status: 503,
    })
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn'],
    )
  })
})

describe('A bug', () => {
  const thrown: [what: string, error: unknown][] = [
    ['a PostgresError', postgresError()],
    ['a real PostgresError', new postgres.PostgresError({ message: 'secret', code: 'XX000' } as never)],
    ['a TypeError', new TypeError('secret is not a function')],
    ['a string', 'secret'],
    ['undefined', undefined],
    ['null', null],
    ['an object', { status: 200, message: 'secret', headers: { 'X-Secret': 'secret' } }],
    [
      'an object with the shape of a refusal',
      { name: 'Refusal', status: 418, message: 'secret', headers: {} },
    ],
    [
      'an error with a status of its own',
      Object.assign(new Error('secret'), { status: 418, statusCode: 418 }),
    ],
  ]

  for (const [what, error] of thrown) {
    for (const [form, list] of [
      ['rejects with', () => Promise.reject(error)],
      [
        'throws',
        () => {
          throw error
        },
      ],
    ] as const) {
      test(`A store that ${form} ${what} is 500 "Internal error"`, async () => {
        const { api, failures } = watched(withClients({ admitAndList: list, create: list }))
        for (const options of [{ key }, CREATE]) {
          const answer = await request(api, PATH, options)
          assertInternal(answer)
          assert.ok(!JSON.stringify([answer.text, ...answer.headers]).includes('secret'))
        }
        assert.deepEqual(
          failures.map((failure) => failure.error),
          [error, error],
        )
      })
    }
  }

  test('Nothing of a PostgresError but its message and code is logged; onError has it whole', async () => {
    const error = postgresError()
    const { api, lines, failures } = watched(withClients({ create: () => Promise.reject(error) }))
    const answer = await request(api, PATH, CREATE)
    assertInternal(answer)
    for (const leaked of ['clients_pkey', '23505', 'secret', 'business_api', 'insert', 'Postgres']) {
      assert.ok(!JSON.stringify([answer.text, ...answer.headers]).includes(leaked), leaked)
    }
    const logged = allOf(lines)
    for (const leaked of ['customer@', 'secret', 'insert into']) assert.ok(!logged.includes(leaked), leaked)
    assert.equal(lines.length, 1)
    assert.equal(lines[0]?.level, 'error')
    assert.ok(logged.includes('23505'))
    assert.ok(logged.includes(String(answer.headers.get('x-request-id'))))
    assert.equal(failures[0]?.error, error)
    assert.deepEqual(failures[0]?.context, {
      requestId: answer.headers.get('x-request-id'),
      method: 'POST',
      path: PATH,
      status: 500,
    })
  })

  test('A real broken constraint is 500 and leaks nothing', async () => {
    await platform.sql`alter table business_api.businesses add constraint secret_rule check (name <> 'secret-name')`
    const { api, failures, lines } = watched(platform.store)
    const answer = await request(api, PATH, { key, json: { name: 'secret-name' } })
    await platform.sql`alter table business_api.businesses drop constraint secret_rule`
    assertInternal(answer)
    assert.ok(!answer.text.includes('secret'))
    assert.ok(!allOf(lines).includes('secret-name'))
    assert.equal(failures.length, 1)
  })

  test('A page that a store did not give is 500', async () => {
    const { api, failures } = watched(
      withClients({
        admitAndList: async (asked, limit) => ({
          ...(await platform.store.clients.admitAndList(asked, limit)),
          page: null,
        }),
      }),
    )
    assertInternal(await request(api, PATH, { key }))
    assert.equal(failures.length, 1)
  })

  test('Refusals are no failures: neither onError nor the logger hears of them', async () => {
    const { api, failures, lines } = watched(platform.store)
    assertError(await request(api, PATH), 401)
    assertError(await request(api, PATH, { key, body: '{' }), 400)
    assertError(await request(api, PATH, { key, body: '{}' }), 422)
    assertError(await request(api, '/api/v1/leads', { key, json: { businessId: 'x' } }), 404)
    assertError(await request(api, '/nowhere'), 404)
    assert.deepEqual(failures, [])
    assert.deepEqual(lines, [])
  })

  for (const option of ['clock', 'ids'] as const) {
    const broken = () => {
      throw new Error('secret')
    }

    test(`An option ${option} that throws is 500 without a port`, async () => {
      const { api, failures } = watched(platform.store, { [option]: broken })
      const answer = await request(api, PATH, CREATE)
      assert.equal(answer.status, 500)
      assert.ok(!answer.text.includes('secret'))
      assert.equal(failures.length, 1)
    })

    test(`An option ${option} that throws leaves no request hanging over node:http`, async (t) => {
      const { api } = watched(platform.store, { [option]: broken })
      const own = await serve((incoming, response) => api(incoming, response).catch(() => response.destroy()))
      t.after(() => own.close())
      const answer = await rawRequest(own, rawHead(`GET ${PATH}`, `Authorization: Bearer ${key}`))
      assert.equal(answer.status, 500)
    })
  }
})

describe('A verb that never settles', () => {
  const never = () => new Promise<never>(() => {})

  for (const [what, store, options] of [
    ['the admission', withApiKeys({ admit: never }), CREATE],
    ['a list', withClients({ admitAndList: never }), { key }],
    ['a creation', withClients({ create: never }), CREATE],
  ] as const) {
    test(`${what} that never settles is 503 at deadlineMs`, async () => {
      const { api, failures } = watched(store, { deadlineMs: 150 })
      const begun = performance.now()
      const answer = await request(api, PATH, options)
      const took = performance.now() - begun
      assertUnavailable(answer)
      assert.ok(took > 140 && took < 1500, `answered after ${took} ms`)
      assert.equal(failures.length, 1)
      assert.equal(failures[0]?.context.status, 503)
    })
  }

  test('A verb that rejects after the deadline is heard by nobody and hurts nobody', async () => {
    let reject = (_: Error): void => {}
    const late = () =>
      new Promise<never>((_, give) => {
        reject = give
      })
    const { api, failures } = watched(withClients({ admitAndList: late }), { deadlineMs: 50 })
    assertUnavailable(await request(api, PATH, { key }))
    reject(new Error('too late'))
    await settle()
    assert.equal(failures.length, 1)
  })

  test('The last use that cannot be recorded, or never is, costs no request anything', async () => {
    for (const markUsed of [never, () => Promise.reject(postgresError()), failAtOnce]) {
      const { key: unused } = await (await platform.organization()).createKey()
      const { api, failures } = watched(withApiKeys({ markUsed }))
      for (let round = 0; round < 3; round++) {
        assert.equal((await request(api, PATH, { key: unused })).status, 200)
      }
      assert.deepEqual(failures, [])
    }
  })

  function failAtOnce(): never {
    throw new Error('at once')
  }
})

describe('onError and logger', () => {
  const broken = withClients({ admitAndList: () => Promise.reject(postgresError()) })
  const brokenLine = () => {
    throw new Error('the logger is broken')
  }
  const brokenLogger: Logger = { debug: brokenLine, info: brokenLine, warn: brokenLine, error: brokenLine }

  test('An onError that throws costs the caller nothing, and is logged', async () => {
    const { api, lines } = watched(broken, { onError: brokenLine })
    assertInternal(await request(api, PATH, { key }))
    assert.equal(lines.length, 2)
    assert.ok(allOf(lines[1]).includes('the logger is broken'))
  })

  test('An onError that rejects costs the caller and the process nothing', async () => {
    const { api } = watched(broken, {
      onError: async () => {
        throw new Error('the report could not be sent')
      },
    })
    assertInternal(await request(api, PATH, { key }))
    await settle()
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test('A logger that throws costs the caller nothing', async () => {
    const { api } = watched(broken, { logger: brokenLogger })
    assertInternal(await request(api, PATH, { key }))
  })

  test('A logger that throws does not keep the failure from onError', async () => {
    const { api, failures } = watched(broken, { logger: brokenLogger })
    assertInternal(await request(api, PATH, { key }))
    assert.equal(failures.length, 1)
  })

  test('A logger and an onError that both throw cost the caller nothing', async () => {
    const { api } = watched(broken, { logger: brokenLogger, onError: brokenLine })
    assertInternal(await request(api, PATH, { key }))
  })

  test('A logger that throws when the last use could not be recorded does not end the process', async () => {
    const { key: unused } = await (await platform.organization()).createKey()
    const store = withApiKeys({ markUsed: () => Promise.reject(new Error('not now')) })
    const { api } = watched(store, { logger: brokenLogger })
    assert.equal((await request(api, PATH, { key: unused })).status, 200)
    await settle()
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test('logger: false mutes, and onError still hears', async () => {
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

  test('The default logger writes failures to stderr, a line of JSON each, and nothing below warn', async () => {
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

  test('pino is a logger', async () => {
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

  test('No API key is ever logged, answered or told to onError by the library', async () => {
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

describe('A host that has answered already', () => {
  test('An answer of the host is left alone', async (t) => {
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

  test('An answer that the host gives while the store is asked is left alone', async (t) => {
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

  test('A response that is destroyed is left alone', async (t) => {
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

  test('A header that the host has set before stays, and ours win', async (t) => {
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

describe('The process', () => {
  test('Service goes on after all of it', async () => {
    const { api } = watched(platform.store)
    recordOf(await request(api, PATH, CREATE))
    const keys = await platform.store.apiKeys.list(organizationId)
    assert.ok(keys.some(({ id }) => id === keyId))
  })
})
