import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { tracingChannel } from 'node:diagnostics_channel'
import { describe, test } from 'node:test'
import express from 'express'
import type { AnsweredCall, BusinessApiOptions, BusinessApiStore, OnResponse } from '../../lib/index.ts'
import { createIds } from '../../lib/index.ts'
import { assertError, recordOf, request, serve } from './_api.ts'
import {
  CREATE,
  failing,
  key,
  keyId,
  organizationId,
  PATH,
  platform,
  postgresError,
  watched,
} from './_failures.ts'
import { settle } from './_strays.ts'

/** Creates an API whose hook collects the calls and then runs a given function. */
function hooked(
  go: OnResponse = () => {},
  options: BusinessApiOptions = {},
  store: BusinessApiStore = platform.store,
) {
  const calls: AnsweredCall[] = []
  const onResponse: OnResponse = (call) => {
    calls.push(call)
    return go(call)
  }
  return { ...watched(store, { ...options, onResponse }), calls }
}

describe('onResponse', () => {
  test('receives the caller, the operation, the status and the duration', async () => {
    const { api, calls } = hooked()
    const begunAt = performance.now()
    const answer = await request(api, `${PATH}?limit=1`, { key })
    const tookMs = performance.now() - begunAt
    await settle()
    const { durationMs = -1, ...call } = calls[0] ?? {}
    assert.deepEqual(call, {
      requestId: answer.headers.get('x-request-id'),
      method: 'GET',
      path: PATH,
      operationId: 'listClients',
      organizationId,
      keyId,
      remoteAddress: null,
      status: 200,
      isReplay: false,
    })
    assert.ok(durationMs > 0 && durationMs <= tookMs, `${durationMs} of ${tookMs} ms`)
  })

  test('is called once for each response of the API', async () => {
    const { api, calls } = hooked(undefined, { rateLimit: {} })
    const organization = await platform.organization()
    const narrow = await organization.createKey({ scopes: ['leads:read'] })
    const spent = await organization.createKey({ rateLimit: { perSecond: 0.001, burst: 1 } })
    const ours = { organizationId, keyId }
    const none = { organizationId: null, keyId: null }
    const of = ({ id }: { readonly id: string }) => ({ organizationId: organization.id, keyId: id })
    const cases = [
      [200, 'createClient', ours, PATH, CREATE],
      [200, 'listClients', of(spent), PATH, { key: spent.key }],
      [429, 'listClients', of(spent), PATH, { key: spent.key }],
      [403, 'listClients', of(narrow), PATH, { key: narrow.key }],
      [401, 'listClients', none, PATH, {}],
      [401, 'createClient', none, PATH, { ...CREATE, key: 'bapi_live_none' }],
      [422, 'createClient', ours, PATH, { key, json: {} }],
      [400, 'createClient', ours, PATH, { key, body: '{' }],
      [404, 'createLead', ours, '/api/v1/leads', { key, json: { businessId: 'biz_none' } }],
      [404, null, none, '/api/v1/nothing', { key }],
      [405, null, none, PATH, { key, method: 'PUT' }],
      [204, null, none, PATH, { method: 'OPTIONS' }],
      [200, null, none, '/openapi.json', {}],
    ] as const
    for (const [status, operationId, caller, path, options] of cases) {
      const answer = await request(api, path, options)
      await settle()
      const [call, ...more] = calls.splice(0)
      assert.deepEqual(more, [])
      const { requestId, durationMs, remoteAddress, method, ...rest } = call ?? assert.fail(`none: ${path}`)
      assert.deepEqual(rest, { status, operationId, ...caller, path, isReplay: false })
      assert.equal(answer.status, status)
      assert.equal(requestId, answer.headers.get('x-request-id'))
    }
  })

  test('is called for 500 and 503, including responses to a host with invalid ids', async () => {
    const down = hooked(
      undefined,
      {},
      failing(() => Promise.reject(postgresError())),
    )
    const slow = hooked(
      undefined,
      { deadlineMs: 100 },
      failing(() => new Promise(() => {})),
    )
    const odd = hooked(undefined, { ids: () => 'not an id' })
    for (const [{ api, calls }, status] of [
      [down, 500],
      [slow, 503],
      [odd, 500],
    ] as const) {
      const answer = await request(api, PATH, { key })
      assertError(answer, status)
      await settle()
      assert.deepEqual(
        calls.map((call) => [call.status, call.requestId]),
        [[status, answer.headers.get('x-request-id')]],
      )
    }
    assertError(await request(odd.api, '/nothing'), 500)
    await settle()
    assert.equal(odd.calls.length, 2)
  })

  test('is told about replays, so that a meter can count each record once', async () => {
    const meter = new Map<string, number>()
    const { api } = hooked(({ organizationId: payer, operationId, status, isReplay }) => {
      if (payer !== null && operationId === 'createClient' && status === 200 && !isReplay) {
        meter.set(payer, (meter.get(payer) ?? 0) + 1)
      }
    })
    const organization = await platform.organization()
    const headers = { 'Idempotency-Key': 'form-1' }
    const create = () => request(api, PATH, { key: organization.key, json: { name: 'Atlas' }, headers })
    await Promise.all(Array.from({ length: 8 }, create))
    recordOf(await create())
    assertError(await request(api, PATH, { key: organization.key, json: { name: 'Other' }, headers }), 422)
    recordOf(await request(api, PATH, { key: organization.key, json: { name: 'Atlas' } }))
    await settle()
    const [row] = await platform.sql`
      select count(*)::int as count from business_api.businesses where organization_id = ${organization.id}`
    assert.equal(row?.count, 2)
    assert.deepEqual([...meter], [[organization.id, 2]])
  })

  test("doesn't delay the response: it starts when the response is sent, and may never finish", async () => {
    let isAnswered = false
    const order: boolean[] = []
    const { api } = hooked(() => {
      order.push(isAnswered)
      return new Promise(() => {})
    })
    const response = await api(
      new Request(`http://x${PATH}`, { headers: { Authorization: `Bearer ${key}` } }),
    )
    isAnswered = true
    assert.equal(response.status, 200)
    await settle()
    assert.deepEqual(order, [true])
  })

  test("that throws or rejects doesn't affect the caller and is reported", async () => {
    for (const go of [
      () => {
        throw new Error('meter down')
      },
      async () => {
        throw new Error('meter down')
      },
    ]) {
      const { api, failures, lines } = hooked(go)
      recordOf(await request(api, PATH, CREATE))
      assertError(await request(api, PATH), 401)
      await settle()
      assert.deepEqual(
        failures.map(({ error, context }) => [String(error), context.status, context.method, context.path]),
        [
          ['Error: meter down', 200, 'POST', PATH],
          ['Error: meter down', 401, 'GET', PATH],
        ],
      )
      assert.deepEqual(
        lines.map(({ message }) => message),
        ['onResponse failed', 'onResponse failed'],
      )
    }
  })

  test("isn't called for a path served by the host", async (t) => {
    const { api, calls } = hooked()
    const app = express()
    app.use('/platform', api)
    app.use((_request, response) => void response.status(404).end())
    const server = await serve(app)
    t.after(() => server.close())
    await fetch(`${server.url}/platform/api/v1/nothing`)
    await fetch(`${server.url}/elsewhere`)
    await settle()
    assert.deepEqual(calls, [])
    const headers = { Authorization: `Bearer ${key}` }
    await (await fetch(`${server.url}/platform${PATH}`, { headers })).text()
    await settle()
    assert.deepEqual(
      calls.map(({ status, operationId }) => [status, operationId]),
      [[200, 'listClients']],
    )
  })

  test("keeps the host's AsyncLocalStorage for many concurrent requests over sockets", async (t) => {
    const store = new AsyncLocalStorage<string>()
    const seen = new Map<string, string | undefined>()
    const { api } = hooked(({ requestId }) => void seen.set(requestId, store.getStore()))
    const server = await serve((incoming, response) =>
      store.run(String(incoming.headers['x-session']), () => api(incoming, response)),
    )
    t.after(() => server.close())
    const sessions = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const headers = {
          Authorization: `Bearer ${index % 2 ? key : 'none'}`,
          'X-Session': `session ${index}`,
        }
        const response = await fetch(server.url + PATH, { headers })
        await response.text()
        return [response.headers.get('x-request-id') ?? '', `session ${index}`] as const
      }),
    )
    await settle()
    assert.deepEqual(
      sessions.map(([requestId]) => seen.get(requestId)),
      sessions.map(([, session]) => session),
    )
  })
})

test('the trace of a request contains the caller, the operation and whether it is a replay', async () => {
  const ids = createIds()
  const { api } = watched(platform.store, { ids })
  const channel = tracingChannel('business-api:request')
  const seen: object[] = []
  const subscribers = {
    start() {},
    end() {},
    asyncStart() {},
    error() {},
    asyncEnd: (traced: object) => void seen.push({ ...traced }),
  }
  channel.subscribe(subscribers)
  const headers = { 'Idempotency-Key': ids('req') }
  const answers = [
    await request(api, PATH, { ...CREATE, headers }),
    await request(api, PATH, { ...CREATE, headers }),
    await request(api, PATH),
    await request(api, '/nowhere'),
  ]
  channel.unsubscribe(subscribers)
  const [first, second, third] = answers.map((answer) => answer.headers.get('x-request-id'))
  const create = {
    method: 'POST',
    path: PATH,
    operationId: 'createClient',
    organizationId,
    keyId,
    status: 200,
  }
  const unknown = { operationId: 'listClients', organizationId: null, keyId: null, status: 401 }
  assert.deepEqual(
    seen.map((traced) => Object.fromEntries(Object.entries(traced).filter(([name]) => name !== 'result'))),
    [
      { ...create, requestId: first, isReplay: false },
      { ...create, requestId: second, isReplay: true },
      { method: 'GET', path: PATH, ...unknown, requestId: third, isReplay: false },
      { method: 'GET', path: '/nowhere' },
    ],
  )
})
