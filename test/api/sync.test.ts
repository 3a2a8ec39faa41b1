import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import express from 'express'
import { createApiClient } from '../../lib/client.ts'
import { createPlatform } from '../../lib/platform.ts'
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
const calls = createPlatform(platform.store)
const server = await serve(express().use('/platform', api))
after(async () => {
  await server.close()
  await platform.close()
})

const PATH = '/api/v1/clients'
const BEGINNING = '?updatedSince=1970-01-01T00:00:00.000Z'
const RULE =
  'Validation failed: updatedSince must be one Sync-Token of an earlier response, or one time in ISO 8601 with a time zone, ' +
  'as 2026-03-14T09:26:53.589Z'

/** Creates an organization with clients and returns their ids, oldest first. */
async function organizationWith(count: number) {
  const { id, key } = await platform.organization()
  const ids: string[] = []
  for (let index = 0; index < count; index++) {
    ids.push(...(await seedClients(platform.store, id, 1)).map((client) => client.id))
  }
  const get = (query: string, options: object = {}): Promise<Answer> =>
    request(api, `${PATH}${query}`, { key, ...options })
  return { id, key, ids, get }
}

const idsIn = (answer: Answer): unknown[] => listOf(answer).map(({ id }) => id)
const tokenOf = (answer: Answer): string => answer.headers.get('sync-token') ?? assert.fail('no Sync-Token')

describe('GET /clients?updatedSince', () => {
  test('GET /clients?updatedSince returns each record once in pages, with a token on each page and a Link on all but the last', async () => {
    const { ids, get } = await organizationWith(6)
    for (const [limit, pages] of [
      [2, 3],
      [4, 2],
      [6, 1],
    ] as const) {
      const read: unknown[] = []
      let next: string | null = `${BEGINNING}&limit=${limit}`
      let count = 0
      for (; next !== null; count++) {
        const answer: Answer = await get(next)
        read.push(...idsIn(answer))
        next = nextQuery(answer)
        const token = tokenOf(answer)
        assert.match(token, /^[\w-]+$/)
        if (next !== null) assert.equal(next, `?limit=${limit}&updatedSince=${token}`)
      }
      assert.deepEqual([count, read], [pages, ids])
    }
  })

  test('GET /clients?updatedSince has the same body as a list, which has no Sync-Token', async () => {
    const { get } = await organizationWith(1)
    const changes = await get(BEGINNING)
    const list = await get('')
    assert.equal(changes.text, list.text)
    assert.equal(list.headers.get('sync-token'), null)
    assert.equal(list.headers.get('link'), null)
  })

  test('HEAD /clients?updatedSince has the headers of GET', async () => {
    const { get } = await organizationWith(2)
    const query = `${BEGINNING}&limit=1`
    const [head, answer] = [await get(query, { method: 'HEAD' }), await get(query)]
    assert.equal(head.text, '')
    assert.match(tokenOf(head), /^[\w-]+$/)
    assert.match(String(head.headers.get('link')), /^<clients\?limit=1&updatedSince=[\w-]+>; rel="next"$/)
    assert.equal(head.headers.get('content-length'), answer.headers.get('content-length'))
  })

  test('GET /clients?updatedSince accepts times with any offset, whether the plus sign is encoded or not', async () => {
    const { id, ids, get } = await organizationWith(1)
    await platform.sql`
      update business_api.businesses set updated_at = '2026-03-14T09:26:53.589Z' where organization_id = ${id}`
    for (const [time, count] of [
      ['2026-03-14T09:26:53.589Z', 1],
      ['2026-03-14T09:26:53.5890Z', 1],
      ['2026-03-14T09:26:53.590Z', 0],
      ['2026-03-14T09:26:53Z', 1],
      ['2026-03-14t09:26:53.589z', 1],
      ['2026-03-14t09:26:53.590z', 0],
      ['2026-03-14t10:26:53.589%2b01:00', 1],
      ['2026-03-14T09:26Z', 1],
      ['2026-03-14T09:27Z', 0],
      ['2026-03-14T10:26:53.589%2B01:00', 1],
      ['2026-03-14T10:26:53.589+01:00', 1],
      ['2026-03-14T10:26:53.590+01:00', 0],
      ['2026-03-14T04:26:53.589-05:00', 1],
      ['0001-01-01T00:00:00Z', 1],
      ['9999-12-31T23:59:59-14:00', 0],
    ] as const) {
      assert.deepEqual(idsIn(await get(`?updatedSince=${time}`)), ids.slice(0, count), time)
    }
  })

  const token = (text: string): string => Buffer.from(text).toString('base64url')
  for (const wrong of [
    '2026-03-14',
    '2026-03-14T09:26:53',
    '2026-02-30T00:00:00Z',
    '2026-03-14T24:01:00Z',
    '2026-13-01T00:00:00Z',
    '2026-03-14 09:26:53Z',
    '1773480413',
    'yesterday',
    'null',
    token('1 c'),
    token('vx c'),
    `${token('v1 c')}=`,
    `${token('v1 c')}.`,
    'x'.repeat(1025),
  ]) {
    test(`GET /clients rejects '${wrong.slice(0, 40)}' as updatedSince`, async () => {
      const { get } = await organizationWith(0)
      assertError(await get(`?updatedSince=${wrong}`), 422, RULE)
    })
  }

  test("GET /clients rejects updatedSince if it is repeated, combined with before, or used with another API's parameter", async () => {
    const { get } = await organizationWith(0)
    assertError(await get(`${BEGINNING}&updatedSince=2026-03-14T09:26:53Z`), 422, RULE)
    for (const query of [`${BEGINNING}&before=cli_1`, '?before=cli_1&updatedSince=x']) {
      assertError(
        await get(query),
        422,
        /^Validation failed: before and updatedSince cannot be used together/,
      )
    }
    assertError(await get(`${BEGINNING}&cursor=x`), 422, /^Validation failed: cursor is not a parameter/)
    assertError(await get(`${BEGINNING}&limit=0`), 422, /^Validation failed: limit/)
  })

  test('GET /clients returns everything for a token from another version, list or database', async () => {
    const { key, ids, get } = await organizationWith(3)
    const leads = await request(api, `/api/v1/leads${BEGINNING}`, { key })
    for (const foreign of [
      token('v2 whatever'),
      token('v1 '),
      token('v1 c 1 1 - - '),
      token('v1 t 1 2026-03-14T09:26:53.589000Z 5 cli_1'),
      token('v1 t 1 2026-02-31T09:26:53.589000Z 5 cli_1'),
      token('v1 c 1 9999999999999999999 9999999999999999999 9999999999999999999 x'),
      token('v1 c 1 1 - - \u0000'),
      tokenOf(leads),
    ]) {
      assert.deepEqual(idsIn(await get(`?updatedSince=${foreign}`)), ids)
    }
  })

  test('GET /clients accepts a token that was derived from a real one', async () => {
    const { get } = await organizationWith(1)
    const text = Buffer.from(tokenOf(await get(BEGINNING)), 'base64url').toString()
    const [, , database] = text.split(' ')
    for (const position of [
      `c ${database} 9999999999999999999 - - `,
      `c ${database} 0 9999999999999999999 9999999999999999999 ${'x'.repeat(256)}`,
      `t ${database} 9999-12-31T23:59:59.999999Z 0 `,
      `t ${database} 1000-02-31T23:59:59.999999Z 0 `,
    ]) {
      assert.equal((await get(`?updatedSince=${token(`v1 ${position}`)}`)).status, 200, position)
    }
  })

  test('GET /clients?updatedSince counts against the rate limit like any list', async () => {
    const { key } = await platform.organization()
    const limited = platform.apiWith({ rateLimit: { key: { perSecond: 0.01, burst: 2 } } })
    const first = await request(limited, `${PATH}${BEGINNING}`, { key })
    assert.match(String(first.headers.get('ratelimit')), /^"key";r=1;/)
    const next = `${PATH}?updatedSince=${tokenOf(first)}`
    assert.equal((await request(limited, next, { key })).status, 200)
    assertError(await request(limited, next, { key }), 429)
  })

  test("GET /projects?updatedSince is 422 if the store can't list changes", async () => {
    const { key } = await platform.organization()
    const projects = {
      ...platform.store.projects,
      admitAndList: async (...[asked]: Parameters<typeof platform.store.projects.admitAndList>) => ({
        admission: await platform.store.apiKeys.admit(asked),
        page: '[]',
      }),
    }
    const other = platform.apiWith({}, { ...platform.store, projects })
    const answer = await request(other, `/api/v1/projects${BEGINNING}`, { key })
    assertError(answer, 422, 'Validation failed: this list has no updatedSince; use limit and before')
  })
})

describe('the client on a server', () => {
  test('list({ updatedSince }) follows the pages and continues with the last token', async () => {
    const { id, key, ids } = await organizationWith(5)
    const { clients } = createApiClient({ url: `${server.url}/platform`, key })
    let since: Date | string = new Date(0)
    const sync = async (): Promise<string[]> => {
      const read: string[] = []
      for await (const page of clients.list({ pageSize: 2, updatedSince: since }).pages()) {
        read.push(...page.data.map((client) => client.id))
        since = page.syncToken ?? assert.fail('no token')
      }
      return read
    }
    assert.deepEqual(await sync(), ids)
    const [{ id: created } = { id: '' }] = await seedClients(platform.store, id, 1)
    await calls.clients.setRevenue(id, { clientId: ids[1] ?? '', totalRevenue: 7 })
    assert.deepEqual((await sync()).slice(-2), [created, ids[1]])
  })

  test('list({ updatedSince }) continues with the token of any page after it was killed there', async () => {
    const { key, ids } = await organizationWith(7)
    const { clients } = createApiClient({ url: `${server.url}/platform`, key })
    const read: string[] = []
    let since: Date | string = new Date(0)
    for (let kills = 0; kills < 4; kills++) {
      for await (const { data, syncToken } of clients.list({ pageSize: 2, updatedSince: since }).pages()) {
        read.push(...data.map((client) => client.id))
        since = syncToken ?? assert.fail('no token')
        break
      }
    }
    assert.deepEqual(read, ids)
  })
})
