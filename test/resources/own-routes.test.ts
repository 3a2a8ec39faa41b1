import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as v from 'valibot'
import {
  createBusinessApi,
  defineRoute,
  defineService,
  page,
  Refusal,
  type Route,
  withJsonSchema,
} from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { type Failure, record, request } from '../api/_api.ts'

// Tests how a host's routes are declared, and how a declaration affects requests.

const ANYTHING = withJsonSchema(v.any(), {})
let routes = 0

/** Starts an API with some routes, and returns a function to call it. */
async function serve(...changes: Partial<Route>[]) {
  const own = changes.map((change) =>
    defineRoute({
      method: 'GET',
      path: '/rooms',
      operationId: `room${++routes}`,
      summary: 'Rooms',
      tag: 'Rooms',
      scope: 'clients:read',
      response: ANYTHING,
      idempotent: change.method && change.method !== 'GET' ? false : undefined,
      handle: () => change.operationId ?? change.path,
      ...change,
    } as Route),
  )
  const store = createMemoryStore({ service: defineService({ routes: own }) })
  const failures: Failure[] = []
  const api = createBusinessApi(store, { logger: false, onError: record(failures) })
  const { key } = await createDeveloperSettings(store).apiKeys.create('org_1', {
    name: 'Rooms',
    scopes: ['clients:read', 'clients:write'],
  })
  return {
    api,
    failures,
    call: (path: string, options: object = {}) => request(api, `/api/v1${path}`, { key, ...options }),
  }
}

describe('a path', () => {
  test("of the library can't be taken over, with any method or below a parameter", async () => {
    const { call } = await serve(
      { method: 'PUT', path: '/{something}' },
      { method: 'POST', path: '/{something}' },
      { path: '/{something}' },
    )
    for (const [path, method, allow] of [
      ['/clients', 'PUT', 'GET, POST, HEAD, OPTIONS'],
      ['/invoices', 'POST', 'GET, HEAD, OPTIONS'],
    ] as const) {
      const answer = await call(path, { method })
      assert.deepEqual([answer.status, answer.headers.get('allow')], [405, allow])
    }
    assert.equal((await call('/rooms')).text, '"/{something}"')
    assert.match((await call('/clients')).text, /^{"data":\[\]}/)
  })

  test('without parameters has precedence over one with them, for all methods', async () => {
    const { call } = await serve({ path: '/rooms/{roomId}' }, { method: 'POST', path: '/rooms/largest' })
    assert.equal((await call('/rooms/1')).text, '"/rooms/{roomId}"')
    assert.equal((await call('/rooms/largest', { method: 'POST' })).status, 200)
    for (const method of ['GET', 'OPTIONS']) {
      const answer = await call('/rooms/largest', { method })
      assert.deepEqual(
        [answer.status, answer.headers.get('allow')],
        [method === 'GET' ? 405 : 204, 'POST, OPTIONS'],
      )
    }
  })
})

describe('the input of a route', () => {
  const Body = v.object({
    name: v.pipe(v.string(), v.minLength(3)),
    mail: v.pipe(v.string(), v.email()),
    floor: v.pipe(v.number(), v.integer()),
    kind: v.picklist(['large', 'small']),
    at: v.object({ x: v.number('must be metres') }),
  })

  test('is rejected with the rule of each field, without including any values', async () => {
    const { call } = await serve({ method: 'POST', body: v.strictObject(Body.entries) })
    const json = { name: 'qq', mail: 'qqmail', floor: 7.5, kind: 'qqkind', at: { x: 'qqx' }, qqmore: 1 }
    const answer = await call('/rooms', { json })
    assert.equal(answer.status, 422)
    assert.equal(
      JSON.parse(answer.text).error,
      'Validation failed: name must have length >=3; mail must be a valid email; floor must be a valid integer; ' +
        'kind must be ("large" | "small"); at.x must be metres; qqmore is unknown',
    )
    assert.match((await call('/rooms', { json: {} })).text, /name must be given; mail must be given/)
  })
})

describe('page()', () => {
  test('only accepts ids that can be used in the next request', async () => {
    const list = (idOf?: () => string) =>
      serve({
        paged: /^room_\d+$/,
        handle: (context) => page([{ id: 'room_1' }, { id: 'b' }, { id: 'c' }], context, idOf),
      })
    const misfit = await list()
    assert.equal((await misfit.call('/rooms?limit=2')).status, 500)
    assert.match(String(misfit.failures[0]?.error), /page.*'b'.*paged/)
    assert.equal(
      (await misfit.call('/rooms?limit=1')).headers.get('link'),
      '<rooms?limit=1&before=room_1>; rel="next"',
    )
    assert.equal((await (await list(() => 'room_2')).call('/rooms?limit=2')).status, 200)
  })
})

describe('an error of handle()', () => {
  test('from a typed call is 422 for an invalid input, and 500 otherwise', async () => {
    const platform = createPlatform(createMemoryStore())
    const { call, failures } = await serve(
      { handle: () => platform.clients.create('org_1', { name: '' }) },
      {
        path: '/none',
        handle: () => platform.clients.setStatus('org_1', { clientId: 'cli_1', status: 'active' }),
      },
    )
    assert.deepEqual([(await call('/rooms')).status, (await call('/none')).status], [422, 500])
    assert.equal(failures.length, 2)
  })

  test('has a message and headers that can be sent', () => {
    assert.throws(() => new Refusal(409, ''), TypeError)
    assert.throws(() => new Refusal(409, undefined as never), TypeError)
    for (const headers of [{ 'X-Room': 'a\r\nb' }, { 'X Room': 'a' }, { 'X-Room': 'ø\u0100' }])
      assert.throws(() => new Refusal(409, 'The room is taken', headers), TypeError)
  })
})

describe('defineRoute() and defineService()', () => {
  const handle = () => ({ data: 'A' })
  const route = {
    method: 'GET',
    path: '/rooms',
    operationId: 'listRooms',
    summary: 'List rooms',
    tag: 'Rooms',
    scope: 'clients:read',
    response: v.object({ data: v.string() }),
    handle,
  } as const
  const define = (change: object) => defineRoute({ ...route, ...change } as never)

  for (const [what, change, message] of [
    ['a path with the prefix', { path: '/api/v1/rooms' }, /path must be below/],
    ['a path that the router would resolve', { path: '/a/../b' }, /path must be below/],
    ['a name of a webhook', { operationId: 'onRoom' }, /operationId must be/],
    ['an unknown name', { reponse: route.response }, /reponse is unknown: did you mean 'response'/],
    ['another method', { method: 'HEAD' }, /method must be/],
    ['a parameter twice', { path: '/a/{id}/b/{id}' }, /path must be .*each parameter once/],
    ['no schema', { response: { type: 'object' } }, /response must be a schema/],
    ['a status that is no error', { errors: { 200: 'fine' } }, /errors must be/],
    ['a GET with a body', { body: route.response }, /a GET has no 'body'/],
    ['a POST with pages', { method: 'POST', paged: /^a/ }, /a POST has no 'paged'/],
  ] as const) {
    test(`reject ${what}`, () => {
      assert.throws(() => define(change), { name: 'TypeError', message })
    })
  }

  test("reject an operation that exists, a scope that the service doesn't have, and invalid scopes", () => {
    const serve = (...routes: Route[]) =>
      createBusinessApi(createMemoryStore({ service: defineService({ routes }) }))
    assert.throws(
      () => serve(define({ path: '/clients' })),
      /route listRooms because \/api\/v1\/clients exists already/,
    )
    assert.throws(() => serve(define({ operationId: 'listClients' })), /listClients exists already/)
    assert.throws(
      () => serve(define({}), define({ operationId: 'other' })),
      /GET \/api\/v1\/rooms exists already/,
    )
    const [one, two] = ['{a}', '{b}'].map((name) =>
      define({ path: `/rooms/${name}`, operationId: `get${name[1]}` }),
    )
    assert.throws(() => serve(one as Route, two as Route), /exists already/)
    assert.throws(() => serve(define({ scope: 'rooms:read' })), /option 'scopes' has rooms:read/)
    for (const scopes of [
      ['clients:read'],
      ['rooms'],
      ['rooms:all'],
      ['a:read', 'a:read'],
      ['a b:read'],
      'a:read',
    ])
      assert.throws(() => defineService({ scopes: scopes as never }), /Option 'scopes' must be/)
  })
})
