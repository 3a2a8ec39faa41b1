import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import {
  assertError,
  listOf,
  rawHead,
  rawRequest,
  request,
  seedClients,
  serve,
  startPlatform,
} from './_api.ts'

const platform = await startPlatform()
const api = platform.apiWith({ rateLimit: false })
const server = await serve((incoming, response) => api(incoming, response))
const { id, key } = await platform.organization()
await seedClients(platform.store, id, 60)
after(async () => {
  await server.close()
  await platform.close()
})

async function countOf(query: string): Promise<number> {
  return listOf(await request(api, `/api/v1/clients${query}`, { key })).length
}

describe('GET /clients accepts', () => {
  const accepted: [query: string, count: number][] = [
    ['', 50],
    ['?', 50],
    ['?limit=1', 1],
    ['?limit=5', 5],
    ['?limit=50', 50],
    ['?limit=60', 60],
    ['?limit=200', 60],
    ['?limit=%35', 5],
    ['?limit=1%30', 10],
    ['?li%6Dit=5', 5],
    ['?limit=5&', 5],
    ['?&&limit=5', 5],
    ['?status=active&limit=5&q=%F0%9F%8F%BA', 5],
    ['?Offset=3', 50],
    ['?page%5B%5D=2&sort=name', 50],
    ['?limit[]=5', 50],
    ['?limit%5B%5D=5', 50],
    ['?limits=5', 50],
    ['?Limit=5', 50],
    ['?LIMIT=0', 50],
    ['?xlimit=0', 50],
    ['?%', 50],
    ['?%zz=%zz&=&&==', 50],
    ['?x=limit=0', 50],
    ['?__proto__[limit]=0&constructor=1', 50],
    [`?x=${'y'.repeat(4000)}`, 50],
  ]
  for (const [query, count] of accepted) {
    test(`GET /clients${query.slice(0, 60)} returns ${count}`, async () => {
      assert.equal(await countOf(query), count)
    })
  }
})

describe('GET /clients rejects', () => {
  const refused: [what: string, query: string][] = [
    ['0', '?limit=0'],
    ['00', '?limit=00'],
    ['000', '?limit=000'],
    ['a zero before it', '?limit=05'],
    ['two zeros before it', '?limit=005'],
    ['a zero before two digits', '?limit=010'],
    ['an encoded zero before it', '?limit=%305'],
    ['201', '?limit=201'],
    ['999', '?limit=999'],
    ['-1', '?limit=-1'],
    ['-0', '?limit=-0'],
    ['1.0', '?limit=1.0'],
    ['1.5', '?limit=1.5'],
    ['1.', '?limit=1.'],
    ['1,5', '?limit=1,5'],
    ['1e2', '?limit=1e2'],
    ['0x10', '?limit=0x10'],
    ['0b1', '?limit=0b1'],
    ['1_0', '?limit=1_0'],
    ['1n', '?limit=1n'],
    ['10^30', '?limit=1000000000000000000000000000000'],
    ['4 digits', '?limit=0005'],
    ['a plus sign, which means a space', '?limit=+5'],
    ['an encoded plus sign', '?limit=%2B5'],
    ['a space before it', '?limit=%205'],
    ['a space after it', '?limit=5%20'],
    ['a plus after it', '?limit=5+'],
    ['a line feed after it', '?limit=5%0A'],
    ['a NUL after it', '?limit=5%00'],
    ['no value', '?limit='],
    ['neither value nor equals sign', '?limit'],
    ['a word', '?limit=all'],
    ['NaN', '?limit=NaN'],
    ['Infinity', '?limit=Infinity'],
    ['null', '?limit=null'],
    ['true', '?limit=true'],
    ['a quoted number', '?limit=%225%22'],
    ['an array', '?limit=[5]'],
    ['Arabic digits', '?limit=%D9%A5'],
    ['full-width digits', '?limit=%EF%BC%95'],
    ['a broken escape', '?limit=%zz'],
    ['invalid UTF-8', '?limit=%ff'],
    ['it twice', '?limit=5&limit=6'],
    ['it twice with the same value', '?limit=5&limit=5'],
    ['it twice, once encoded', '?limit=5&%6Cimit=5'],
    ['it three times', '?limit=5&limit=5&limit=5'],
    ['it twice, once empty', '?limit=5&limit='],
    ['another equals sign', '?limit==5'],
    ['a very long number', `?limit=${'9'.repeat(6000)}`],
  ]
  for (const [what, query] of refused) {
    test(`GET /clients rejects ${what} as limit`, async () => {
      const answer = await request(api, `/api/v1/clients${query}`, { key })
      assertError(answer, 422, /^Validation failed: limit must be one whole number from 1 to 200$/)
    })
  }

  test('GET /clients rejects characters in limit that should have been encoded', async () => {
    for (const limit of ['"5"', '5|', "5'", '{5}', '5^', '<5>', '5\\', '5#', '5#fragment']) {
      const bytes = rawHead(`GET /api/v1/clients?limit=${limit}`, `Authorization: Bearer ${key}`)
      assertError(await rawRequest(server, bytes), 422, /limit/)
    }
  })

  test('GET /clients ignores limit in a body or header', async () => {
    const body = '{"limit":3}'
    const answer = await rawRequest(
      server,
      rawHead(
        'GET /api/v1/clients',
        `Authorization: Bearer ${key}`,
        'Limit: 3',
        'Content-Type: application/json',
        `Content-Length: ${body.length}`,
      ) + body,
    )
    assert.equal(listOf(answer).length, 50)
  })
})

describe('POST /clients', () => {
  test('POST /clients ignores limit', async () => {
    const answer = await request(api, '/api/v1/clients?limit=0', { key, json: { name: 'Atlas' } })
    assert.equal(answer.status, 200)
  })
})
