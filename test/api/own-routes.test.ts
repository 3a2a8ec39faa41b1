import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { after, before, describe, test } from 'node:test'
import * as v from 'valibot'
import {
  type AnswerTrace,
  type BusinessApi,
  BusinessApiError,
  type BusinessApiOptions,
  createBusinessApi,
  defineRoute,
  Refusal,
  type Route,
} from '../../lib/index.ts'
import { pgTransaction } from '../../lib/postgres.ts'
import { named } from '../_service.ts'
import { assertError, type Failure, nextQuery, record, request } from './_api.ts'
import { type BookingHost, startBookingHost } from './_bookings.ts'

// Tests the host's own routes with a real database.

let host: BookingHost
before(async () => {
  host = await startBookingHost()
})
after(() => host[Symbol.asyncDispose]())

const PATH = '/api/v1/bookings'
const SCOPES = ['bookings:read', 'bookings:write'] as const
let organizations = 0
async function newCaller(): Promise<{ organizationId: string; key: string; id: string }> {
  const organizationId = `org_own_${++organizations}`
  return { organizationId, ...(await host.key(organizationId)) }
}

describe('own routes', () => {
  test('GET /bookings returns pages, which the Link connects', async () => {
    const { key } = await newCaller()
    for (const room of ['A', 'B', 'C']) {
      const made = await request(host.api, PATH, { key, json: { room } })
      assert.equal(made.status, 200, made.text)
    }
    const rooms: unknown[] = []
    let query: string | null = '?limit=2&room=any'
    while (query !== null) {
      const answer = await request(host.api, PATH + query, { key })
      assert.equal(answer.status, 200, answer.text)
      rooms.push(...JSON.parse(answer.text).data.map(({ room }: { room: string }) => room))
      query = nextQuery(answer)
      if (query !== null) assert.match(query, /limit=2&room=any&before=bkg_/)
    }
    assert.deepEqual(rooms, ['C', 'B', 'A'])
  })

  test('POST /bookings with an Idempotency-Key writes once, publishes once and replays byte for byte', async () => {
    const { key, organizationId } = await newCaller()
    const send = (room: string) =>
      request(host.api, PATH, { key, json: { room }, headers: { 'Idempotency-Key': 'form-1' } })
    const first = await send('Atlas')
    assert.equal(first.status, 200, first.text)
    assert.equal(first.headers.get('idempotent-replayed'), null)
    const second = await send('Atlas')
    assert.equal(second.status, 200, second.text)
    assert.equal(second.text, first.text)
    assert.equal(second.headers.get('idempotent-replayed'), 'true')
    assert.notEqual(second.headers.get('x-request-id'), first.headers.get('x-request-id'))
    const other = await send('Rif')
    assert.equal(other.status, 422)
    assert.match(other.text, /Idempotency-Key was already used with a different request body/)
    const { rows } = await host.pool.query(
      `select (select count(*)::int from bookings where organization_id = $1) as bookings,
              (select count(*)::int from business_api.events where organization_id = $1) as events`,
      [organizationId],
    )
    assert.deepEqual(rows, [{ bookings: 1, events: 1 }])
  })
})

/** Creates an API with the host's store and one additional route. */
function withRoute(route: Partial<Route> & Pick<Route, 'handle'>, options: BusinessApiOptions = {}) {
  const whole = {
    method: 'POST',
    path: '/probe',
    operationId: 'probe',
    summary: 'Probe',
    tag: 'Bookings',
    scope: 'bookings:write',
    response: v.object({ data: v.string() }),
    idempotent: false,
    ...route,
  } as const
  const failures: Failure[] = []
  const store = named(host.store, { scopes: SCOPES, routes: [defineRoute(whole as Route)] })
  const api = createBusinessApi(store, {
    logger: false,
    onError: record(failures),
    rateLimit: false,
    ...options,
  })
  return { api, failures }
}

async function countOf(organizationId: string): Promise<{ bookings: number; events: number }> {
  const { rows } = await host.pool.query(
    `select (select count(*)::int from bookings where organization_id = $1) as bookings,
            (select count(*)::int from business_api.events where organization_id = $1) as events`,
    [organizationId],
  )
  return rows[0]
}

describe('own routes under attack', () => {
  test('are rejected in the order of the built-in operations: 401, 403, 415, 413, 400, 422', async () => {
    const organizationId = `org_own_${++organizations}`
    const { key } = await host.key(organizationId)
    const reader = await host.key(organizationId, ['bookings:read'])
    const bad = { 'Content-Type': 'text/plain', 'Idempotency-Key': '' }
    const wrong = [
      [401, { body: 'x', headers: bad }],
      [401, { key: 'bapi_live_x', body: 'x', headers: bad }],
      [403, { key: reader.key, body: 'x', headers: bad }],
      [415, { key, body: 'x', headers: bad }],
      [413, { key, body: `"${'x'.repeat(70_000)}`, headers: { 'Idempotency-Key': '' } }],
      [400, { key, body: '{', headers: { 'Idempotency-Key': '' } }],
      [422, { key, json: { room: 1 }, headers: { 'Idempotency-Key': '' } }],
      [422, { key, json: { room: 1 } }],
      [422, { key, json: { room: 'a\0' } }],
      [422, { key, body: '{"room":"\\ud800"}' }],
      [422, { key, body: `{"room":"a","more":${'['.repeat(20_000)}${']'.repeat(20_000)}}` }],
    ] as const
    for (const [status, options] of wrong) {
      for (const path of [PATH, '/api/v1/clients']) {
        if (path !== PATH && !('headers' in options && 'Content-Type' in options.headers)) continue
        if (path !== PATH && status > 401) continue
        const answer = await request(host.api, path, { method: 'POST', ...options })
        assertError(answer, status)
      }
    }
    assert.match((await request(host.api, PATH, { key, json: { room: 1 } })).text, /room must be a string"/)
    for (const query of [
      '?limit=0',
      `?before=bkg_${'1'.repeat(61)}`,
      '?limit=2&limit=3',
      '?before=nope',
      '?page=2',
      '?updatedSince=2026-01-01T00:00:00Z',
    ])
      assert.equal((await request(host.api, PATH + query, { key })).status, 422, query)
    assert.deepEqual(await countOf(organizationId), { bookings: 0, events: 0 })
  })

  test('respond to HEAD, OPTIONS and with 405, even below a parameter, and to no path that the router would resolve', async () => {
    const { key } = await newCaller()
    const { id } = JSON.parse((await request(host.api, PATH, { key, json: { room: 'A' } })).text).data
    for (const [path, allow] of [
      [PATH, 'GET, POST, HEAD, OPTIONS'],
      [`${PATH}/${id}`, 'GET, HEAD, OPTIONS'],
    ] as const) {
      const get = await request(host.api, path, { key })
      const head = await request(host.api, path, { key, method: 'HEAD' })
      assert.deepEqual(
        [head.status, head.text, head.headers.get('content-length')],
        [200, '', get.headers.get('content-length')],
      )
      assert.equal((await request(host.api, path, { method: 'OPTIONS' })).headers.get('allow'), allow)
      const patched = await request(host.api, path, { method: 'PATCH', key })
      assert.deepEqual([patched.status, patched.headers.get('allow')], [405, allow])
    }
    for (const path of [`${PATH}/`, `${PATH}/a/b`, `${PATH}/%2e%2e`, `${PATH}/a%20b`, `${PATH}//a`])
      assert.equal((await request(host.api, path, { key })).status, 404, path)
  })

  test('with a dot in the path are only served at that path, and any other path is 404', async () => {
    const { key } = await newCaller()
    const { api } = withRoute({
      path: '/v2.0/{id}',
      handle: ({ input }) => ({ data: Object(input.params).id }),
    })
    const dotted = await request(api, '/api/v1/v2.0/a.b', { key, method: 'POST' })
    assert.equal(dotted.text, '{"data":"a.b"}')
    for (const path of ['/api/v1/v2x0/a', '/api/v1/v2-0/a', '/api/v1/v20/a'])
      assertError(await request(api, path, { key, method: 'POST' }), 404, `No such path: ${path}`)
  })

  test("can't access a booking of another organization", async () => {
    const [one, other] = [await newCaller(), await newCaller()]
    const { id } = JSON.parse(
      (await request(host.api, PATH, { key: one.key, json: { room: 'A' } })).text,
    ).data
    const foreign = await request(host.api, `${PATH}/${id}`, { key: other.key })
    const unknown = await request(host.api, `${PATH}/bkg_0`, { key: other.key })
    assert.deepEqual(
      [foreign.status, JSON.parse(foreign.text).error],
      [unknown.status, JSON.parse(unknown.text).error],
    )
    assert.equal(
      (await request(host.api, `${PATH}?before=bkg_999999999999`, { key: other.key })).text,
      '{"data":[]}',
    )
    // The organizations' idempotency keys are separate as well.
    for (const { key } of [one, other]) {
      const answer = await request(host.api, PATH, {
        key,
        json: { room: 'K' },
        headers: { 'Idempotency-Key': 'same' },
      })
      assert.deepEqual([answer.status, answer.headers.get('idempotent-replayed')], [200, null])
    }
  })

  test('write nothing for a key that is revoked after its admission', async () => {
    const { organizationId, key, id } = await newCaller()
    for (const headers of [{}, { 'Idempotency-Key': 'revoked' }]) {
      const { api } = withRoute({
        idempotent: true,
        async handle(context) {
          await host.settings.apiKeys.revoke(organizationId, id)
          return host.transaction((client) =>
            host.platform.using(pgTransaction(client)).idempotent(context, async () => {
              await client.query('insert into bookings values ($1, $2, $3)', [organizationId, 'bkg_1', 'A'])
              return { data: 'A' }
            }),
          )
        },
      })
      const answer = await request(api, '/api/v1/probe', { key, method: 'POST', headers })
      assert.equal(answer.status, 401, answer.text)
    }
    assert.deepEqual(await countOf(organizationId), { bookings: 0, events: 0 })
  })
})

describe('handle()', () => {
  test('that throws causes a 500 without details, or the status of a Refusal', async () => {
    const { key } = await newCaller()
    const call = (api: BusinessApi) => request(api, '/api/v1/probe', { key, method: 'POST' })
    for (const thrown of [new Error('secret'), 'secret', null, new BusinessApiError('not_found', 'secret')]) {
      const { api, failures } = withRoute({
        handle() {
          throw thrown
        },
      })
      const answer = await call(api)
      assert.equal(answer.status, 500)
      assert.doesNotMatch(answer.text, /secret/)
      assert.equal(failures[0]?.error, thrown)
    }
    const { api, failures } = withRoute({
      async handle() {
        throw new Refusal(409, 'The room is taken', { 'Retry-After': '7' })
      },
    })
    const taken = await call(api)
    assert.deepEqual([taken.status, taken.headers.get('retry-after')], [409, '7'])
    assertError(taken, 409, 'The room is taken')
    assert.deepEqual(failures, [])
    assert.throws(() => new Refusal(200, 'fine'), RangeError)
  })

  test('an error message has up to 1000 characters, however many fields are invalid', async () => {
    const { key } = await newCaller()
    const { api } = withRoute({
      body: v.object({ rooms: v.array(v.string()), '😀': v.record(v.string(), v.string()) }),
      handle: () => ({ data: 'a' }),
    })
    const rooms = Array(20_000).fill(1)
    for (const json of [
      { rooms, '😀': {} },
      { rooms: [], '😀': { ['😀'.repeat(10_000)]: 1 } },
    ]) {
      const { status, text } = await request(api, '/api/v1/probe', { key, method: 'POST', json })
      const { error } = JSON.parse(text)
      assert.deepEqual([status, error.isWellFormed()], [422, true])
      assert.ok(error.length === 1000 || error.length === 999, `${error.length} characters`)
      assert.match(error, /^Validation failed: (rooms\.0 must be string; rooms\.1 must be string|😀\.).*…$/)
    }
  })

  test('is called at once if the query has many parameters', async () => {
    const { key } = await newCaller()
    const { api } = withRoute({ query: v.object({ a: v.string() }), handle: () => ({ data: 'a' }) })
    const query = Array.from({ length: 25_000 }, (_, index) => index.toString(36)).join('&')
    const before = process.cpuUsage()
    assert.equal((await request(api, `/api/v1/probe?${query}`, { key, method: 'POST' })).status, 200)
    const { user } = process.cpuUsage(before)
    assert.ok(user < 700_000, `${user} µs`)
  })

  test("never sends a result that its response schema rejects, or fields that the schema doesn't have", async () => {
    const { organizationId, key } = await newCaller()
    const { api, failures } = withRoute({ handle: () => ({ data: 1 as never }) })
    assert.equal((await request(api, '/api/v1/probe', { key, method: 'POST' })).status, 500)
    assert.match(String(failures[0]?.error), /result does not fit 'response': data must be string/)
    const stored = withRoute({
      idempotent: true,
      handle: (context) =>
        host.transaction((client) =>
          host.platform.using(pgTransaction(client)).idempotent(context, async () => {
            await client.query('insert into bookings values ($1, $2, $3)', [organizationId, 'bkg_1', 'A'])
            return { data: 1 as never }
          }),
        ),
    })
    const headers = { 'Idempotency-Key': 'unfit' }
    assert.equal((await request(stored.api, '/api/v1/probe', { key, method: 'POST', headers })).status, 500)
    assert.deepEqual(await countOf(organizationId), { bookings: 0, events: 0 })
    const more = withRoute({ handle: () => ({ data: 'a', internal: 'secret' }) as never })
    assert.equal((await request(more.api, '/api/v1/probe', { key, method: 'POST' })).text, '{"data":"a"}')
  })

  test("that never settles ends at the deadline, is notified, and can't commit anything afterwards", async () => {
    const { organizationId, key } = await newCaller()
    let reason: unknown
    let end: (error: unknown) => void
    const late = new Promise((resolve) => {
      end = resolve
    })
    const { api, failures } = withRoute(
      {
        idempotent: true,
        async handle(context) {
          await new Promise((resolve) => context.signal.addEventListener('abort', resolve))
          reason = context.signal.reason
          return host
            .transaction((client) =>
              host.platform.using(pgTransaction(client)).idempotent(context, () => ({ data: 'A' })),
            )
            .catch((error) => end(error)) as never
        },
      },
      { deadlineMs: 100 },
    )
    const headers = { 'Idempotency-Key': 'late' }
    const answer = await request(api, '/api/v1/probe', { key, method: 'POST', headers })
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1'])
    assert.match(String(failures[0]?.error), /route probe has not answered in time/)
    assert.equal(await late, reason)
    assert.deepEqual(await countOf(organizationId), { bookings: 0, events: 0 })
  })

  test('must return the reply of idempotent(), or set idempotent: false, which rejects an idempotency key', async () => {
    const { key } = await newCaller()
    const headers = { 'Idempotency-Key': 'k' }
    const handle = () => ({ data: 'A' })
    const silent = withRoute({ idempotent: true, handle })
    assert.equal((await request(silent.api, '/api/v1/probe', { key, method: 'POST' })).status, 500)
    assert.match(String(silent.failures[0]?.error), /idempotent: false/)
    const { api } = withRoute({ handle })
    assert.equal((await request(api, '/api/v1/probe', { key, method: 'POST' })).status, 200)
    const refused = await request(api, '/api/v1/probe', { key, method: 'POST', headers })
    assert.equal(refused.status, 422)
    assert.match(refused.text, /takes no Idempotency-Key/)
  })

  test("doesn't change lock_timeout of the host's transaction, and if it fails the key can be used again", async () => {
    const { key } = await newCaller()
    const seen: string[] = []
    let fails = true
    const { api } = withRoute({
      idempotent: true,
      handle: (context) =>
        host.transaction(async (client) => {
          await client.query("set local lock_timeout = '1234ms'")
          const { idempotent } = host.platform.using(pgTransaction(client))
          // A host that commits even though the work has failed. The key must not be used up.
          const reply = idempotent(context, async () => {
            seen.push((await client.query('show lock_timeout')).rows[0].lock_timeout)
            if (fails) throw new Refusal(409, 'not yet')
            return { data: 'A' }
          })
          return (await reply.catch(() => null)) ?? ({ data: 'failed' } as never)
        }),
    })
    const headers = { 'Idempotency-Key': 'again' }
    const call = () => request(api, '/api/v1/probe', { key, method: 'POST', headers })
    assert.equal((await call()).status, 500)
    fails = false
    const [made, replayed] = [await call(), await call()]
    assert.deepEqual([made.text, replayed.text], ['{"data":"A"}', '{"data":"A"}'])
    assert.deepEqual(
      [made, replayed].map((each) => each.headers.get('idempotent-replayed')),
      [null, 'true'],
    )
    assert.deepEqual(seen, ['1234ms', '1234ms'])
  })

  test('is known to hooks and traces by the names of its route', async () => {
    const { key, organizationId } = await newCaller()
    const calls: unknown[] = []
    const routes: unknown[] = []
    const note = (trace: unknown): void => void routes.push((trace as AnswerTrace).route)
    subscribe('business-api:answer', note)
    const { api } = withRoute(
      {
        method: 'GET',
        path: '/probe/{name}',
        idempotent: undefined,
        handle: ({ input }) => ({ data: Object(input).params.name }),
      },
      {
        onRequest: ({ operationId, scope }) => void calls.push([operationId, scope]),
        onResponse: ({ operationId, organizationId: owner }) => void calls.push([operationId, owner]),
      },
    )
    assert.equal((await request(api, '/api/v1/probe/a.b-c_1', { key })).text, '{"data":"a.b-c_1"}')
    await new Promise(setImmediate)
    unsubscribe('business-api:answer', note)
    assert.deepEqual(calls, [
      ['probe', 'bookings:write'],
      ['probe', organizationId],
    ])
    assert.deepEqual(routes, ['/api/v1/probe/{name}'])
  })
})
