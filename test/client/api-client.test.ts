import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { RESOURCES } from '../../lib/access/scopes.ts'
import { createApiClient } from '../../lib/client.ts'
import { collect, errorOf, json, KEY, refusal, script, URL_OF_API } from './_answers.ts'

const CLIENT = { id: 'cli_1', status: 'active', business: { id: 'biz_1', name: 'Atlas' } }

describe('createApiClient()', () => {
  for (const url of ['https://app.example', 'https://app.example/', 'https://app.example//']) {
    test(`createApiClient() finds the API at ${url}`, async () => {
      const { api, requests } = script([json({ data: [] })], { url })
      await collect(api.invoices.list())
      assert.equal(requests[0]?.url, 'https://app.example/api/v1/invoices?limit=200')
    })
  }

  test('createApiClient() keeps the prefix of a mount', async () => {
    const { api, requests } = script([json({ data: CLIENT })], { url: 'http://[::1]:3000/platform/' })
    await api.clients.create({ name: 'Atlas' })
    assert.equal(requests[0]?.url, 'http://[::1]:3000/platform/api/v1/clients')
  })

  test('createApiClient() rejects invalid options without revealing the key or a password', () => {
    const cases = [
      { url: 'app.example' },
      { url: '' },
      { url: 'ftp://app.example' },
      { url: 'https://user:p4ss@app.example' },
      { url: 'https://app.example?p4ss' },
      { url: 'https://app.example/#p4ss' },
      { key: '' },
      { key: `${KEY}\n` },
      { key: `${KEY} x` },
      { key: undefined as unknown as string },
      { timeoutMs: 0 },
      { timeoutMs: 2 ** 31 },
      { maxRetries: -1 },
      { maxDurationMs: 0.5 },
    ]
    for (const options of cases) {
      const [name = ''] = Object.keys(options)
      assert.throws(
        () => createApiClient({ url: URL_OF_API, key: KEY, ...options }),
        (error) => {
          assert.match(String(error), new RegExp(`^(Type|Range)Error: Option '${name}' must be`))
          return !/p4ss|s3cret/.test(inspect(error))
        },
        JSON.stringify(options),
      )
    }
  })

  test("createApiClient() doesn't send anything, and the client doesn't reveal the key", () => {
    const { api, requests } = script([])
    api.clients.list()
    assert.equal(requests.length, 0)
    assert.ok(!inspect(api, { depth: 10, showHidden: true }).includes(KEY))
    assert.ok(!JSON.stringify(api).includes(KEY))
  })
})

describe('the operations', () => {
  test('all lists read their own path with the key and return the records', async () => {
    for (const resource of RESOURCES) {
      const { api, requests } = script([json({ data: [{ id: '1' }, { id: '2' }] })])
      assert.deepEqual(await collect<object>(api[resource].list({ pageSize: 7 })), [{ id: '1' }, { id: '2' }])
      const [{ url, init } = { url: '', init: undefined }] = requests
      assert.equal(url, `https://app.example/api/v1/${resource}?limit=7`)
      assert.deepEqual(
        [init?.method, init?.body, init?.redirect, init?.headers],
        ['GET', null, 'manual', { Accept: 'application/json', Authorization: `Bearer ${KEY}` }],
      )
    }
  })

  test('all creates post the input with a new idempotency key and return the record', async () => {
    const { api, requests } = script([json({ data: CLIENT })])
    assert.deepEqual(await api.clients.create({ name: 'Écume 🏺' }), CLIENT)
    await api.leads.create({ businessId: 'biz_1' })
    await api.leads.create({ businessId: 'biz_1' }, { idempotencyKey: 'form-7' })
    assert.deepEqual(
      requests.map(({ url, init: { method, body } }) => [method, url, body]),
      [
        ['POST', 'https://app.example/api/v1/clients', '{"name":"Écume 🏺"}'],
        ['POST', 'https://app.example/api/v1/leads', '{"businessId":"biz_1"}'],
        ['POST', 'https://app.example/api/v1/leads', '{"businessId":"biz_1"}'],
      ],
    )
    const keys = requests.map(({ init }) => init.headers['Idempotency-Key'] ?? '')
    assert.equal(new Set(keys).size, 3)
    assert.match(keys[0] ?? '', /^[0-9a-f-]{36}$/)
    assert.equal(keys[2], 'form-7')
    assert.equal(requests[0]?.init.headers['Content-Type'], 'application/json')
  })

  test('a create rejects an idempotency key that the API would reject, without sending anything', async () => {
    const { api, requests } = script([])
    for (const idempotencyKey of ['', 'a b', 'é', 'x'.repeat(201), 'a\n']) {
      await assert.rejects(
        api.clients.create({ name: 'Atlas' }, { idempotencyKey }),
        TypeError,
        idempotencyKey,
      )
    }
    assert.equal(requests.length, 0)
  })
})

describe('ApiError', () => {
  const codes: readonly [status: number, code: string, isTransient: boolean][] = [
    [301, 'invalid_response', false],
    [400, 'invalid_request', false],
    [401, 'unauthorized', false],
    [403, 'forbidden', false],
    [404, 'not_found', false],
    [405, 'invalid_response', false],
    [408, 'unavailable', true],
    [409, 'conflict', true],
    [413, 'invalid_request', false],
    [415, 'invalid_request', false],
    [422, 'invalid_request', false],
    [425, 'unavailable', true],
    [429, 'rate_limited', true],
    [500, 'unavailable', true],
    [502, 'unavailable', true],
    [503, 'unavailable', true],
  ]
  for (const [status, code, isTransient] of codes) {
    test(`ApiError of ${status} has the code ${code}, the status and the request id`, async () => {
      const { api, requests } = script([refusal(status)], { maxRetries: 1 })
      const error = await errorOf(api.clients.create({ name: 'Atlas' }, { idempotencyKey: 'form-7' }))
      assert.deepEqual(
        { ...error },
        {
          name: 'ApiError',
          code,
          status,
          requestId: 'req_1',
          retryAfterMs: null,
          isTransient,
          idempotencyKey: 'form-7',
          attempts: isTransient ? 2 : 1,
        },
      )
      assert.match(
        error.message,
        new RegExp(
          `^Cannot create a client because the API responded with ${status}: .*Refused with ${status} \\(req_1\\)$`,
        ),
      )
      assert.equal(requests.length, error.attempts)
    })
  }

  test('ApiError contains a line of a proxy’s page, but not the key that is part of it', async () => {
    const page = `<html>\n<h1>Bearer ${KEY}</h1>\r\n${'x'.repeat(10_000)}`
    const { api } = script([() => new Response(page, { status: 403, headers: { 'x-request-id': KEY } })])
    const error = await errorOf(collect(api.clients.list()))
    assert.match(
      error.message,
      /^Cannot list clients because the API responded with 403: <html> <h1>Bearer \[key\]<\/h1> x+ \(/,
    )
    assert.ok(error.message.length < 400)
    assert.equal(error.idempotencyKey, null)
  })

  test("ApiError doesn't contain the key, even if fetch includes the request in its error", async () => {
    const { api } = script([
      (init) => {
        throw Object.assign(new Error(`refused ${JSON.stringify(init.headers)}`), { init })
      },
    ])
    const error = await errorOf(collect(api.clients.list()))
    assert.match(error.message, /did not respond \(refused .*\[key\]/)
    assert.equal(error.code, 'network_failed')
  })

  for (const body of [
    '',
    'null',
    '[]',
    '7',
    '"x"',
    '{}',
    '{"data":null}',
    '{"data":"none"}',
    '<html>',
    '{"data":{',
  ]) {
    test(`a 200 with the body ${body || 'of no bytes'} isn't a record or list`, async () => {
      const answer = () => new Response(body)
      for (const call of [
        script([answer]).api.clients.create({ name: 'Atlas' }),
        collect(script([answer]).api.clients.list()),
      ]) {
        const error = await errorOf(call)
        assert.deepEqual([error.code, error.status, error.attempts], ['invalid_response', 200, 6])
      }
    })
  }
})
