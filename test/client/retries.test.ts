import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ApiClientOptions } from '../../lib/client.ts'
import { collect, errorOf, json, lost, refusal, script } from './_answers.ts'

const CREATED = json({ data: { id: 'cli_1' } })

/** Returns the waits of a create that receives a given response first and then the record. */
async function waitsAfter(
  first: Parameters<typeof script>[0][number],
  options: Partial<ApiClientOptions> = {},
) {
  const { api, waits } = script([first, CREATED], options)
  await api.clients.create({ name: 'Atlas' })
  return waits
}

describe('retries', () => {
  test('a create sends the same body and idempotency key on each attempt', async () => {
    const answers = [
      lost(),
      refusal(503),
      refusal(429),
      refusal(500),
      () => new Response('{"data":{'),
      CREATED,
    ]
    const { api, requests } = script(answers)
    assert.deepEqual(await api.clients.create({ name: 'Atlas' }), { id: 'cli_1' })
    assert.equal(requests.length, 6)
    assert.equal(new Set(requests.map(({ init }) => init.headers['Idempotency-Key'])).size, 1)
    assert.equal(new Set(requests.map(({ init }) => init.body)).size, 1)
  })

  test('pauses grow from half a second to eight seconds and differ between callers', async () => {
    const { api, waits } = script([lost()], { maxRetries: 8, maxDurationMs: 600_000 })
    await errorOf(api.clients.create({ name: 'Atlas' }))
    const pauses = [500, 1000, 2000, 4000, 8000, 8000, 8000, 8000]
    assert.equal(waits.length, pauses.length)
    waits.forEach((ms, index) => {
      const pause = pauses[index] ?? 0
      assert.ok(ms >= pause / 2 && ms <= pause, `${ms} ms of ${pause}`)
    })
    assert.ok(new Set(waits.slice(4)).size > 1, String(waits))
  })

  const date = (ms: number): string => new Date(Math.ceil(ms / 1000) * 1000).toUTCString()
  const now = Date.UTC(2026, 2, 14, 9, 26, 53)
  const retryAfters: readonly [value: string, earliest: number, latest: number, sentAt?: string][] = [
    ['7', 7000, 7000],
    [' 7 ', 7000, 7000],
    ['0', 250, 500],
    ['-7', 250, 500],
    ['7.5', 250, 500],
    ['soon', 250, 500],
    ['soon 7', 250, 500],
    ['1e3', 250, 500],
    ['', 250, 500],
    [date(Date.UTC(2001, 0, 1)), 250, 500],
    [date(now + 9000), 9000, 9000, date(now)],
    [date(now - 9000), 250, 500, date(now)],
    ['Sat, 99 Mar 2026 09:26:53 GMT', 250, 500],
  ]
  for (const status of [429, 503, 409]) {
    for (const [value, earliest, latest, sentAt] of retryAfters) {
      test(`a ${status} with Retry-After: ${value}${sentAt ? `, sent at ${sentAt},` : ''} is waited for`, async () => {
        const headers = { 'Retry-After': value, ...(sentAt && { Date: sentAt }) }
        const [wait = 0, ...others] = await waitsAfter(refusal(status, headers))
        assert.ok(wait >= earliest && wait <= latest, `${wait} ms`)
        assert.equal(others.length, 0)
      })
    }
  }

  test('a date in a response without a Date header is compared with the local clock', async () => {
    const begunAt = Date.now()
    const [wait = 0] = await waitsAfter(() => refusal(503, { 'Retry-After': date(Date.now() + 30_000) })())
    assert.ok(wait <= 31_000 && wait >= 30_000 - (Date.now() - begunAt), `${wait} ms`)
  })

  for (const value of ['9999999', '9'.repeat(400), 'Fri, 31 Dec 9999 23:59:59 GMT', '61']) {
    test(`a wait of ${value.slice(0, 40)} ends the call immediately, and the reported wait fits into a timer`, async () => {
      const { api, requests, waits } = script([refusal(429, { 'Retry-After': value })])
      const error = await errorOf(api.clients.create({ name: 'Atlas' }))
      assert.deepEqual([requests.length, waits], [1, []])
      assert.deepEqual([error.code, error.isTransient], ['rate_limited', true])
      assert.equal(error.retryAfterMs, value === '61' ? 61_000 : 86_400_000)
    })
  }

  test('the number of attempts and the duration are limited', async () => {
    const counted = script([refusal(503)], { maxRetries: 3 })
    assert.equal((await errorOf(counted.api.clients.create({ name: 'Atlas' }))).attempts, 4)
    const none = script([refusal(503)], { maxRetries: 0 })
    assert.equal((await errorOf(collect(none.api.clients.list()))).attempts, 1)
    const timed = script([refusal(503, { 'Retry-After': '10' })], { maxRetries: 1000, maxDurationMs: 35_000 })
    await errorOf(timed.api.clients.create({ name: 'Atlas' }))
    assert.deepEqual(timed.waits, [10_000, 10_000, 10_000])
  })

  test('an attempt without a complete response ends at its timeout', async () => {
    const silent = (init: RequestInit) =>
      new Promise<never>((_, reject) =>
        init.signal?.addEventListener('abort', () => reject(init.signal?.reason)),
      )
    const halfway = (init: RequestInit) => {
      const body = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('{"data":'))
          init.signal?.addEventListener('abort', () => controller.error(init.signal?.reason))
        },
      })
      return new Response(body)
    }
    const { api, requests } = script([silent, halfway], { timeoutMs: 20, maxRetries: 1 })
    const error = await errorOf(api.clients.create({ name: 'Atlas' }))
    assert.deepEqual([error.code, error.status, requests.length], ['timeout', null, 2])
    assert.match(error.message, /did not respond \(no complete response within 20 ms\)$/)
  })
})

describe('signals', () => {
  const silent = (init: RequestInit) =>
    new Promise<never>((_, reject) =>
      init.signal?.addEventListener('abort', () => reject(init.signal?.reason)),
    )

  for (const place of ['the client', 'the call'] as const) {
    test(`a signal of ${place} aborts an attempt, a wait and a call before the first attempt with its own reason`, async () => {
      const reason = new Error('enough')
      for (const [answer, options] of [
        [silent, {}],
        [refusal(503, { 'Retry-After': '30' }), { wait: undefined }],
      ] as const) {
        const controller = new AbortController()
        const { signal } = controller
        const { api, requests } = script([answer], place === 'the client' ? { ...options, signal } : options)
        const call = api.clients.create({ name: 'Atlas' }, place === 'the call' ? { signal } : {})
        setTimeout(() => controller.abort(reason), 20)
        await assert.rejects(call, (error) => error === reason)
        assert.equal(requests.length, 1)
        await assert.rejects(api.clients.create({ name: 'Atlas' }, { signal }), (error) => error === reason)
        await assert.rejects(collect(api.clients.list({ signal })), (error) => error === reason)
        assert.equal(requests.length, 1)
      }
    })
  }

  test('a thousand calls leave no listeners on a signal', async () => {
    const { signal } = new AbortController()
    let listeners = 0
    const add = signal.addEventListener.bind(signal)
    const remove = signal.removeEventListener.bind(signal)
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners++
      add(...args)
    }
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners--
      remove(...args)
    }
    const { api } = script([CREATED], { signal })
    for (let count = 0; count < 1000; count++) await api.clients.create({ name: 'Atlas' })
    assert.equal(listeners, 0)
  })
})
