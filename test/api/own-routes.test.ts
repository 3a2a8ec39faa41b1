import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { nextQuery, request } from './_api.ts'
import { type BookingHost, startBookingHost } from './_bookings.ts'

// The routes of a host's own, on a real database.

let host: BookingHost
before(async () => {
  host = await startBookingHost()
})
after(() => host[Symbol.asyncDispose]())

const PATH = '/api/v1/bookings'
let organizations = 0
async function newCaller(): Promise<{ organizationId: string; key: string }> {
  const organizationId = `org_own_${++organizations}`
  return { organizationId, ...(await host.key(organizationId)) }
}

describe('own routes', () => {
  test('GET /bookings lists page by page, and the Link continues', async () => {
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
