import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { type AdmittedCall, type BusinessApiOptions, type OnRequest, Refusal } from '../../lib/index.ts'
import { assertError, OPERATIONS, rawHead, recordOf, request, serve } from './_api.ts'
import {
  assertInternal,
  assertUnavailable,
  CREATE,
  key,
  keyId,
  organizationId,
  PATH,
  platform,
  strays,
  watched,
} from './_failures.ts'
import { settle } from './_strays.ts'

const PLAN = new Refusal(402, 'Your plan has no writes: upgrade the plan')

/** Creates an API whose hook collects the calls and returns a given result. */
function hooked(verdict: OnRequest = () => undefined, options: BusinessApiOptions = {}) {
  const calls: AdmittedCall[] = []
  const onRequest: OnRequest = (call) => {
    calls.push(call)
    return verdict(call)
  }
  return { ...watched(platform.store, { ...options, onRequest }), calls }
}

async function countClients(of = organizationId): Promise<number> {
  const [row] = await platform.sql`
    select count(*)::int as count from business_api.businesses where organization_id = ${of}`
  return row?.count
}

describe('onRequest', () => {
  test('receives the caller and the operation', async () => {
    const { api, calls } = hooked(undefined, { peerAddress: ({ header }) => header('x-real-ip') })
    const headers = { 'X-Real-IP': '203.0.113.7' }
    for (const { method, path } of OPERATIONS) {
      await request(api, `${path}?limit=1`, {
        key,
        method,
        headers,
        ...(method === 'POST' ? { json: {} } : {}),
      })
    }
    const answer = await request(api, PATH, { key, method: 'HEAD', headers })
    const last = calls.pop()
    assert.deepEqual(last, {
      requestId: answer.headers.get('x-request-id'),
      method: 'HEAD',
      path: PATH,
      operationId: 'listClients',
      scope: 'clients:read',
      organizationId,
      keyId,
      remoteAddress: '203.0.113.7',
    })
    assert.deepEqual(
      calls.map(({ method, path, scope, operationId }) => ({ method, path, scope, operationId })),
      OPERATIONS.map(({ method, path, scope, item }) => {
        return { method, path, scope, operationId: method === 'GET' ? `list${item}s` : `create${item}` }
      }),
    )
  })

  test("receives the socket's address, or null without a socket", async (t) => {
    const { api, calls } = hooked()
    const server = await serve(api)
    t.after(() => server.close())
    await fetch(server.url + PATH, { headers: { Authorization: `Bearer ${key}` } })
    await request(api, PATH, { key })
    assert.match(calls[0]?.remoteAddress ?? '', /^(::ffff:)?127\.0\.0\.1$/)
    assert.equal(calls[1]?.remoteAddress, null)
  })

  test("rejects with the host's status, message and Retry-After, in the format of all errors", async () => {
    const { api, failures, lines } = hooked(
      () => {
        throw new Refusal(429, 'Quota spent "é"', { 'Retry-After': '3600' })
      },
      {
        rateLimit: {},
      },
    )
    const answer = await request(api, PATH, { key })
    assertError(answer, 429, 'Quota spent "é"')
    assert.equal(answer.headers.get('retry-after'), '3600')
    assert.match(answer.headers.get('ratelimit') ?? '', /^"key";r=/)
    assert.deepEqual([failures, lines], [[], []], 'a refusal is no failure')
    const { api: plain } = hooked(() => new Refusal(503, 'Closed'))
    const closed = await request(plain, PATH, { key })
    assertError(closed, 503, 'Closed')
    assert.equal(closed.headers.get('retry-after'), null)
  })

  test('writes nothing for a rejected create, whose idempotency key can still be used', async () => {
    let isUpgraded = false
    const { api } = hooked(async () => {
      await sleep(5)
      return isUpgraded ? null : PLAN
    })
    const before = await countClients()
    const headers = { 'Idempotency-Key': `plan-${Date.now()}` }
    for (let attempt = 0; attempt < 6; attempt++) {
      assertError(await request(api, PATH, { ...CREATE, headers }), 402, PLAN.message)
    }
    assert.equal(await countClients(), before)
    isUpgraded = true
    recordOf(await request(api, PATH, { ...CREATE, headers }))
    assert.equal(await countClients(), before + 1)
  })

  test('rejects a create over a socket, whose body arrived with the headers, before anything is written', async (t) => {
    const { api } = hooked(() => PLAN)
    const server = await serve(api)
    t.after(() => server.close())
    const before = await countClients()
    const connection = await server.connect()
    const body = JSON.stringify(CREATE.json)
    const head = rawHead(
      `POST ${PATH}`,
      `Authorization: Bearer ${key}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
    )
    for (let attempt = 0; attempt < 6; attempt++) {
      connection.send(head + body)
      assertError(await connection.answer(), 402)
    }
    connection.socket.destroy()
    assert.equal(await countClients(), before)
  })

  test('rejects before the body is read', async (t) => {
    const { api } = hooked(() => PLAN)
    const server = await serve(api)
    t.after(() => server.close())
    const connection = await server.connect()
    const head = [`POST ${PATH}`, `Authorization: Bearer ${key}`, 'Content-Type: application/json'] as const
    connection.send(rawHead(...head, 'Content-Length: 1000'))
    assertError(await connection.answer(), 402)
    connection.socket.destroy()
  })

  test("isn't called for requests that were already rejected", async () => {
    const { api, calls } = hooked(() => PLAN, { rateLimit: {} })
    const organization = await platform.organization()
    const narrow = await organization.createKey({ scopes: ['leads:read'] })
    const spent = await organization.createKey({ rateLimit: { perSecond: 0.001, burst: 1 } })
    assertError(await request(api, PATH, { key: spent.key }), 402)
    assert.equal(calls.splice(0).length, 1)
    const refused = [
      [404, await request(api, '/api/v1/nothing', { key })],
      [405, await request(api, PATH, { key, method: 'DELETE' })],
      [401, await request(api, PATH)],
      [401, await request(api, PATH, { key: `${key.slice(0, -1)}!` })],
      [429, await request(api, PATH, { key: spent.key })],
      [403, await request(api, PATH, { key: narrow.key })],
    ] as const
    for (const [status, answer] of refused) assertError(answer, status)
    assert.equal((await request(api, '/openapi.json')).status, 200)
    assert.equal((await request(api, PATH, { method: 'OPTIONS' })).status, 204)
    assert.deepEqual(calls, [])
  })

  test('is called before 415, 413, 400, 422 and 404, which admitted requests still receive', async () => {
    const wrong = [
      [415, PATH, { key, body: '{}', headers: { 'Content-Type': 'text/plain' } }],
      [413, PATH, { key, json: { name: 'x'.repeat(70_000) } }],
      [400, PATH, { key, body: '{' }],
      [422, PATH, { key, json: {} }],
      [422, `${PATH}?limit=0`, { key }],
      [404, '/api/v1/leads', { key, json: { businessId: 'biz_none' } }],
    ] as const
    const { api: refusing } = hooked(() => PLAN)
    const { api: passing, calls } = hooked()
    for (const [status, path, options] of wrong) {
      assertError(await request(refusing, path, options), 402)
      assertError(await request(passing, path, options), status)
    }
    assert.equal(calls.length, wrong.length)
  })

  for (const [what, verdict] of [
    [
      'throws',
      () => {
        throw new Error('secret detail')
      },
    ],
    ['rejects', async () => Promise.reject(new Error('secret detail'))],
  ] as const satisfies readonly (readonly [string, OnRequest])[]) {
    test(`that ${what} causes a reported 500, and nothing is written`, async () => {
      const { api, failures } = hooked(verdict)
      const before = await countClients()
      assertInternal(await request(api, PATH, CREATE))
      assertInternal(await request(api, PATH, { key }))
      assert.deepEqual(
        failures.map(({ error, context }) => [String(error), context.status, context.method]),
        [
          ['Error: secret detail', 500, 'POST'],
          ['Error: secret detail', 500, 'GET'],
        ],
      )
      assert.equal(await countClients(), before)
    })
  }

  test('that throws store_unavailable, for example from a call to the store, causes a 503', async () => {
    const { api, failures } = hooked(() => Promise.reject(storeUnavailable('Cannot reach it')))
    assertUnavailable(await request(api, PATH, { key }))
    assert.equal(failures.length, 1)
  })

  test('that returns anything but a rejection causes a 500, and onError receives the reason', async () => {
    const odd: readonly unknown[] = [{ status: 402, error: 'no' }, new Error('no'), {}, false, true, 'no']
    for (const verdict of odd) {
      const { api, failures } = hooked(() => verdict as Refusal)
      assertInternal(await request(api, PATH, { key }))
      assert.match(String(failures[0]?.error), /^TypeError: The result of option 'onRequest' must be/)
    }
  })

  test('that never finishes causes a 503 at the deadline, and nothing is written, even if it finishes later', async () => {
    let endLate = (): void => {}
    const { api, failures } = hooked(
      () =>
        new Promise((_, reject) => {
          endLate = () => reject(new Error('late'))
        }),
      {
        deadlineMs: 200,
      },
    )
    const before = await countClients()
    assertUnavailable(await request(api, PATH, CREATE))
    assert.match(String(failures[0]?.error), /because option 'onRequest' has not answered in time/)
    endLate()
    await settle()
    assert.equal(await countClients(), before)
    assert.deepEqual(strays, [])
  })

  test("keeps the host's AsyncLocalStorage for many concurrent requests, including keys that are looked up together", async () => {
    const store = new AsyncLocalStorage<number>()
    const seen = new Map<string, number | undefined>()
    const { api } = hooked(async (call) => {
      await sleep(1)
      seen.set(call.organizationId, store.getStore())
      return null
    })
    const organizations = await Promise.all(Array.from({ length: 20 }, () => platform.organization()))
    await Promise.all(
      organizations.map((one, index) => store.run(index, () => request(api, PATH, { key: one.key }))),
    )
    assert.deepEqual(
      organizations.map(({ id }) => seen.get(id)),
      organizations.map((_, index) => index),
    )
  })
})
