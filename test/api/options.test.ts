import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createLocalLimiter } from '../../lib/api/local-limiter.ts'
import { type BusinessApiOptions, createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { named } from '../_service.ts'

function create(options: BusinessApiOptions): () => unknown {
  return () => createBusinessApi(createMemoryStore(), options)
}

describe('createBusinessApi() rejects on construction', () => {
  const refused: readonly [string, BusinessApiOptions, RegExp][] = [
    ['a basePath without a slash', { basePath: 'platform' }, /'basePath'.*'platform'/],
    ['a basePath with a query', { basePath: '/a?b' }, /'basePath'/],
    ['a deadlineMs beyond the longest timer', { deadlineMs: 2 ** 31 }, /'deadlineMs'/],
    ['a rate too small to count', { rateLimit: { key: { perSecond: 1e-300, burst: 1 } } }, /'rateLimit.key'/],
    [
      'a burst that no integer holds',
      { rateLimit: { key: { perSecond: 1, burst: 3e9 } } },
      /'rateLimit.key'/,
    ],
    ['a maxBodyBytes of 0', { maxBodyBytes: 0 }, /'maxBodyBytes'.*0/],
    ['a maxBodyBytes of 1.5', { maxBodyBytes: 1.5 }, /'maxBodyBytes'.*1\.5/],
    ['a deadlineMs that is not a number', { deadlineMs: Number.NaN }, /'deadlineMs'.*NaN/],
    ['a rate of 0', { rateLimit: { key: { perSecond: 0, burst: 1 } } }, /'rateLimit.key'/],
    ['a burst of 0', { rateLimit: { organization: { perSecond: 1, burst: 0 } } }, /'rateLimit.organization'/],
  ]
  for (const [what, options, message] of refused) {
    test(what, () => {
      assert.throws(create(options), (error) => {
        assert.ok(error instanceof TypeError || error instanceof RangeError)
        assert.match(error.message, message)
        return true
      })
    })
  }

  test('an unknown rate limit scope', () => {
    const scope: string = 'galaxy'
    const options = { rateLimit: { scope } } as BusinessApiOptions
    assert.throws(create(options), /'rateLimit.scope'.*'galaxy'/)
  })
})

describe('GET /openapi.json', () => {
  const api = createBusinessApi(named(createMemoryStore(), { baseUrl: 'https://app.business.test/' }))
  const ask = (headers: Record<string, string> = {}): Promise<Response> =>
    api(new Request('http://localhost/openapi.json', { headers }))

  test('needs no key, uses baseUrl as its server and can be cached', async () => {
    const response = await ask()
    assert.equal(response.status, 200)
    assert.match(response.headers.get('cache-control') ?? '', /^public, max-age=\d+$/)
    assert.deepEqual(JSON.parse(await response.text()).servers, [{ url: 'https://app.business.test' }])
  })

  test('responds with 304 without a body if the caller has the same ETag', async () => {
    const etag = (await ask()).headers.get('etag') ?? ''
    assert.match(etag, /^"[\w-]+"$/)
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const response = await ask({ 'if-none-match': known })
      assert.equal(response.status, 304, known)
      assert.equal(response.headers.get('etag'), etag)
      assert.equal(await response.text(), '')
    }
    assert.equal((await ask({ 'if-none-match': '"other"' })).status, 200)
  })

  test('is the same for all callers', async () => {
    assert.equal(await (await ask()).text(), await (await ask()).text())
  })
})

test('a process-local limiter removes buckets that are full again', () => {
  const limit = { perSecond: 1e9, burst: 1 }
  const judge = createLocalLimiter({ key: limit, organization: limit })
  // There are more callers than buckets are kept, and each bucket is full again after a nanosecond.
  for (let caller = 0; caller < 12_000; caller++) {
    const admission = judge({
      outcome: 'admitted',
      caller: { organizationId: `org_${caller}`, keyId: 'key_1' },
      rateLimit: null,
      lastUseIsStale: false,
    })
    assert.equal(admission.outcome, 'admitted')
  }
})
