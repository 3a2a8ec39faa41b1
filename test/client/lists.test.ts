import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { findNextLink } from '../../lib/client/lists.ts'
import { collect, errorOf, json, refusal, script } from './_answers.ts'

/** A page with one record and a Link header. */
const page = (id: string, link?: string, headers: Readonly<Record<string, string>> = {}) =>
  json({ data: [{ id }] }, { ...headers, ...(link === undefined ? {} : { Link: link }) })

describe('list()', () => {
  test('list() follows the next links, relative to each request, until a page has none', async () => {
    const links = [
      '<?limit=2&before=cli_3>; rel="next"',
      '</platform/api/v1/clients?limit=2&before=cli_2>; rel=next',
      '<https://app.example/platform/api/v1/clients?before=cli_1#fragment>; rel="prev next"',
    ]
    const answers = [...links.map((link, index) => page(`cli_${4 - index}`, link)), page('cli_1')]
    const { api, requests } = script(answers, { url: 'https://app.example/platform' })
    const ids = (await collect(api.clients.list({ pageSize: 2 }))).map(({ id }) => id)
    assert.deepEqual(ids, ['cli_4', 'cli_3', 'cli_2', 'cli_1'])
    const base = 'https://app.example/platform/api/v1/clients'
    assert.deepEqual(
      requests.map(({ url }) => url),
      [
        `${base}?limit=2`,
        `${base}?limit=2&before=cli_3`,
        `${base}?limit=2&before=cli_2`,
        `${base}?before=cli_1`,
      ],
    )
  })

  test('list() reads a page only when its first record is needed, and starts over for each iteration', async () => {
    const { api, requests } = script([page('cli_2', '<?before=cli_2>; rel="next"')])
    const list = api.clients.list()
    for await (const { id } of list) {
      assert.equal(id, 'cli_2')
      break
    }
    assert.equal(requests.length, 1)
    for await (const _ of list) break
    assert.deepEqual(
      requests.map(({ url }) => url.split('?')[1]),
      ['limit=200', 'limit=200'],
    )
  })

  test('list() retries a failed page and never returns a record twice', async () => {
    const answers = [
      page('cli_2', '<?before=cli_2>; rel="next"'),
      refusal(503),
      () => new Response('{"da'),
      page('cli_1'),
    ]
    const { api, requests } = script(answers)
    assert.deepEqual(
      (await collect(api.clients.list())).map(({ id }) => id),
      ['cli_2', 'cli_1'],
    )
    assert.equal(requests.length, 4)
  })

  const faults: readonly [link: string, reason: string][] = [
    ['<https://evil.example/api/v1/clients?before=x>; rel="next"', 'leads to another origin'],
    ['<//evil.example/api/v1/clients>; rel="next"', 'leads to another origin'],
    ['<blob:https://app.example/api/v1/clients>; rel="next"', 'leads to another origin'],
    ['<http://app.example/api/v1/clients>; rel="next"', 'leads to another origin'],
    ['<https://ada:pw@app.example/api/v1/clients?before=x>; rel="next"', 'holds credentials'],
    ['<//ada@app.example/api/v1/clients?before=x>; rel="next"', 'holds credentials'],
    ['<http://[>; rel="next"', 'is not a URL'],
    ['<?limit=200>; rel="next"', 'leads back to a page that was read'],
    ['<>; rel="next"', 'leads back to a page that was read'],
    ['<#more>; rel="next"', 'leads back to a page that was read'],
  ]
  for (const [link, reason] of faults) {
    test(`list() ends with an error at the link ${link}, which ${reason}`, async () => {
      const { api, requests } = script([page('cli_1', link, { 'X-Request-Id': 'req_9' })])
      const ids: string[] = []
      const walk = async (): Promise<void> => {
        for await (const { id } of api.clients.list()) ids.push(id)
      }
      const error = await errorOf(walk())
      assert.deepEqual([error.code, error.status, error.requestId], ['invalid_response', 200, 'req_9'])
      assert.equal(
        error.message,
        `Cannot list clients to the end because the link to the next page ${reason}`,
      )
      assert.deepEqual([ids, requests.length], [['cli_1'], 1])
    })
  }

  test('list() ends with an error if two pages link to each other', async () => {
    const { api, requests } = script([
      page('cli_2', '<?before=a>; rel="next"'),
      page('cli_1', '<?limit=200>; rel="next"'),
    ])
    assert.match((await errorOf(collect(api.clients.list()))).message, /leads back/)
    assert.equal(requests.length, 2)
  })

  test('list() passes on updatedSince, and pages() returns the token for the next list', async () => {
    const { api, requests } = script([page('cli_1', undefined, { 'Sync-Token': 'token 2' })])
    const pages = await collect(api.clients.list({ updatedSince: new Date(0) }).pages())
    assert.deepEqual(pages, [{ data: [{ id: 'cli_1' }], syncToken: 'token 2' }])
    await collect(api.leads.list({ updatedSince: 'token 2' }))
    assert.deepEqual(
      requests.map(({ url }) => new URL(url).searchParams.get('updatedSince')),
      ['1970-01-01T00:00:00.000Z', 'token 2'],
    )
    assert.equal(
      (
        await collect(
          script([page('cli_1')])
            .api.clients.list()
            .pages(),
        )
      )[0]?.syncToken,
      null,
    )
  })

  test('list() rejects a page size that the API would reject', () => {
    const { api } = script([])
    for (const pageSize of [0, 201, 1.5, Number.NaN]) {
      assert.throws(() => api.clients.list({ pageSize }), RangeError, String(pageSize))
    }
  })
})

describe('findNextLink()', () => {
  const headers: readonly [header: string | null, next: string | null][] = [
    [null, null],
    ['', null],
    ['<?a>; rel="next"', '?a'],
    ['<?a>; rel=next', '?a'],
    ['<?a>;rel=NEXT', '?a'],
    ['<?a> ; title="x" ; rel = "last next"', '?a'],
    ['<?a>; rel="prev", <?b>; rel="next"', '?b'],
    ['<?a,b;c>; rel="next"', '?a,b;c'],
    ['<?a>; title="<?x>; rel=\\"next\\", "; rel="prev", <?b>; rel="next"', '?b'],
    ['<?a>; rel="prev"; rel="next"', null],
    ['<?a>; rel="nextish"', null],
    ['<?a>; rel="x:next"', null],
    ['<?a>; anchor="#x"; rel="next", <?b>; rel="next"', '?b'],
    ['<?a>', null],
    ['rel="next"', null],
    ['?a; rel="next"', null],
    ['<?a>; next; rel="next"', '?a'],
  ]
  for (const [header, next] of headers) {
    test(`findNextLink() of ${header}: ${next}`, () => assert.equal(findNextLink(header), next))
  }

  test('findNextLink() quickly reads a long header without a match', () => {
    const begunAt = performance.now()
    // As long as all headers of a response together can be.
    for (const part of ['<', '<>;', '; a="', '<a>; b="\\"', '<a> ', ';;; ']) {
      findNextLink(part.repeat(16_384 / part.length))
    }
    assert.ok(performance.now() - begunAt < 2000, `${performance.now() - begunAt} ms`)
  })
})
