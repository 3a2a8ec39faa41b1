import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import express from 'express'
import { createApiClient } from '../../lib/client.ts'
import { named } from '../_service.ts'
import {
  type Answer,
  assertError,
  listOf,
  nextQuery,
  request,
  seedClients,
  serve,
  startPlatform,
} from './_api.ts'

const platform = await startPlatform()
const api = platform.apiWith({ rateLimit: false })
const { id: organizationId, key } = await platform.organization()
const newest = await seed(organizationId, 12)
const PATH = '/api/v1/clients'
after(() => platform.close())

const get = (query: string, options: object = {}): Promise<Answer> =>
  request(api, `${PATH}${query}`, { key, ...options })
/** Creates clients and returns their ids, newest first. */
async function seed(id: string, count: number): Promise<string[]> {
  return (await seedClients(platform.store, id, count)).map((client) => client.id).toReversed()
}

const idsIn = (answer: Answer): unknown[] => listOf(answer).map(({ id }) => id)

/** Follows the links starting at a query. */
async function walk(query: string): Promise<unknown[][]> {
  const pages: unknown[][] = []
  for (let next: string | null = query; next !== null; ) {
    const answer: Answer = await get(next)
    pages.push(idsIn(answer))
    next = nextQuery(answer)
  }
  return pages
}

describe('GET /clients', () => {
  test('GET /clients returns a Link to the next page that is relative to the request', async () => {
    const answer = await get('?limit=5')
    assert.equal(answer.headers.get('link'), `<clients?limit=5&before=${newest[4]}>; rel="next"`)
  })

  test('GET /clients returns an absolute Link to the next page with baseUrl, even for a list of changes', async () => {
    const known = platform.apiWith(
      { rateLimit: false },
      named(platform.store, { baseUrl: 'https://app.example/platform/' }),
    )
    const linkOf = async (query: string): Promise<string | null> =>
      (await request(known, PATH + query, { key })).headers.get('link')
    const absolute = '<https://app.example/platform/api/v1/clients?limit=5&'
    assert.equal(await linkOf('?limit=5'), `${absolute}before=${newest[4]}>; rel="next"`)
    const changes = await linkOf('?limit=5&updatedSince=1970-01-01T00:00:00Z')
    assert.ok(changes?.startsWith(`${absolute}updatedSince=`), String(changes))
  })

  test('GET /clients only keeps known parameters in the Link', async () => {
    const answer = await get('?x=%3E&limit=5&sort=name&before=cli_z')
    assert.equal(answer.headers.get('link'), `<clients?limit=5&before=${newest[4]}>; rel="next"`)
  })

  test('GET /clients without a limit has none in the Link', async () => {
    const { id, key: other } = await platform.organization()
    const ids = await seed(id, 51)
    const answer = await get('', { key: other })
    assert.equal(answer.headers.get('link'), `<clients?before=${ids[49]}>; rel="next"`)
    assert.deepEqual(idsIn(await get(`?before=${ids[49]}`, { key: other })), ids.slice(50))
  })

  for (const [limit, pages] of [
    [5, [5, 5, 2]],
    [6, [6, 6]],
    [11, [11, 1]],
    [12, [12]],
    [13, [12]],
    [1, Array(12).fill(1)],
  ] as const) {
    test(`GET /clients returns each of 12 records once in pages of ${limit}, and the last page has no Link`, async () => {
      const walked = await walk(`?limit=${limit}`)
      assert.deepEqual(
        walked.map(({ length }) => length),
        pages,
      )
      assert.deepEqual(walked.flat(), newest)
    })
  }

  test('GET /clients returns the older records even if others are added while a client is paging', async () => {
    const { id, key: other } = await platform.organization()
    const ids = await seed(id, 6)
    const first = await get('?limit=3', { key: other })
    await seed(id, 4)
    const second = await get(nextQuery(first) ?? '', { key: other })
    assert.deepEqual([...idsIn(first), ...idsIn(second)], ids)
    assert.equal(second.headers.get('link'), null)
  })

  test("GET /clients accepts a before id that doesn't exist", async () => {
    assert.deepEqual(idsIn(await get(`?before=${newest[3]}_`)), newest.slice(3))
    assert.deepEqual(idsIn(await get('?before=cli_z')), newest)
    assert.deepEqual(idsIn(await get('?before=cli_0')), [])
  })

  test("GET /clients only returns records of the key's organization if before is an id of another one", async () => {
    const { id } = await platform.organization()
    const [foreign = ''] = await seed(id, 1)
    assert.deepEqual(idsIn(await get(`?before=${foreign}`)), newest)
  })

  test('HEAD /clients has the same Link as GET', async () => {
    const head = await get('?limit=5', { method: 'HEAD' })
    assert.equal(head.text, '')
    assert.equal(head.headers.get('link'), (await get('?limit=5')).headers.get('link'))
  })

  test('GET /clients with only a limit returns the same body whether there are more records or not', async () => {
    const answer = await get('?limit=12')
    assert.equal(answer.headers.get('link'), null)
    assert.deepEqual(Object.keys(JSON.parse(answer.text)), ['data'])
    assert.deepEqual(Object.keys(JSON.parse((await get('?limit=5')).text)), ['data'])
  })

  test('GET /clients ignores an empty before or updatedSince, even if both are given', async () => {
    for (const query of ['before=', 'updatedSince=', 'before=&updatedSince=']) {
      const answer = await get(`?limit=5&${query}`)
      assert.deepEqual(idsIn(answer), newest.slice(0, 5))
      assert.equal(answer.headers.get('sync-token'), null)
    }
    assert.deepEqual(idsIn(await get(`?updatedSince=&before=${newest[9]}`)), newest.slice(10))
    const changes = await get('?before=&updatedSince=1970-01-01T00:00:00Z')
    assert.deepEqual(idsIn(changes).toSorted(), newest.toSorted())
    assertError(await get('?before=&before='), 422)
    assertError(await get(`?before=&before=${newest[9]}`), 422)
  })

  for (const before of [
    '2',
    '2026-03-14',
    newest[0]?.replace('cli_', 'lead_'),
    'cli_',
    'cli_%00',
    'cli_a b',
  ]) {
    test(`GET /clients rejects '${before}' as before`, async () => {
      const rule =
        'Validation failed: before must be one id of this list, cli_ and up to 59 letters, digits, - or _'
      assertError(await get(`?before=${before}`), 422, rule)
    })
  }

  test('GET /clients rejects two before ids, or one that is too long', async () => {
    assertError(await get('?before=cli_1&before=cli_1'), 422, /^Validation failed: before must be one id/)
    assertError(await get(`?before=cli_${'x'.repeat(60)}`), 422, /^Validation failed: before must be one id/)
  })

  for (const [name, ours] of Object.entries({
    page: 'before',
    page_size: 'limit',
    per_page: 'limit',
    offset: 'before',
    cursor: 'before',
    after: 'before',
    starting_after: 'before',
    ending_before: 'before',
  })) {
    test(`GET /clients rejects ${name} and suggests ${ours}`, async () => {
      const text = assertError(await get(`?limit=5&${name}=2`), 422)
      assert.match(
        text,
        new RegExp(`^Validation failed: ${name} is not a parameter of this list; .*\\b${ours}$`),
      )
    })
  }
})

describe('GET /clients behind a mount', () => {
  test('GET /clients has a Link that works with Express, with a basePath, and for the client', async () => {
    const app = express()
    app.use('/platform', api)
    app.use('/full', (incoming, response, next) => {
      incoming.url = incoming.originalUrl
      return platform.apiWith({ rateLimit: false, basePath: '/full' })(incoming, response, next)
    })
    const server = await serve(app)
    try {
      for (const mount of ['/platform', '/full']) {
        const client = createApiClient({ url: `${server.url}${mount}`, key })
        const walked: string[] = []
        for await (const { id } of client.clients.list({ pageSize: 5 })) walked.push(id)
        assert.deepEqual(walked, newest, mount)
      }
    } finally {
      await server.close()
    }
  })
})

test("POST /clients is 500 and writes nothing if the ids option omits the kind, and onError receives the option's name", async () => {
  const { id, key: other } = await platform.organization()
  const errors: unknown[] = []
  const odd = platform.apiWith({
    rateLimit: false,
    ids: (kind) => (kind === 'cli' ? 'abc' : `${kind}_01M819PM545CBJ4FSPK7C91TQ4`),
    onError: (error) => errors.push(error),
  })
  const answer = await request(odd, PATH, { key: other, method: 'POST', json: { name: 'Atlas' } })
  assertError(answer, 500)
  assert.match(String(errors[0]), /^TypeError: Option 'ids' must make ids of cli_ .*: it made 'abc'$/)
  assert.deepEqual(await platform.store.clients.list(id, {}, 10, null), [])
})
