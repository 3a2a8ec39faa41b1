import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, request } from '../api/_api.ts'
import { type BookingHost, startBookingHost } from '../api/_bookings.ts'

// A host's own POST under one Idempotency-Key: its row, its event and its reply exist once, whatever races and whatever dies.

let host: BookingHost
before(async () => {
  host = await startBookingHost()
})
after(() => host[Symbol.asyncDispose]())

const post = (key: string, idempotencyKey: string, room = idempotencyKey): Promise<Answer> =>
  request(host.api, '/api/v1/bookings', {
    key,
    json: { room },
    headers: { 'Idempotency-Key': idempotencyKey },
  })

/** The rooms with the number of bookings and of events of each. */
async function written(organizationId: string): Promise<Map<string, readonly [number, number]>> {
  const { rows } = await host.pool.query(
    `select b.room, count(distinct b.id)::int as bookings, count(e.id)::int as events
       from bookings b
       left join business_api.events e on e.organization_id = b.organization_id and e.subject_id = b.id
      where b.organization_id = $1 group by b.room`,
    [organizationId],
  )
  return new Map(rows.map(({ room, bookings, events }) => [room, [bookings, events]]))
}

test('60 races of 6 requests each: one booking, one event, one reply', async () => {
  const { key } = await host.key('org_races')
  const keys = Array.from({ length: 60 }, (_, index) => `race-${index}`)
  for (let at = 0; at < keys.length; at += 10) {
    await Promise.all(
      keys.slice(at, at + 10).map(async (name) => {
        const answers = await Promise.all(Array.from({ length: 6 }, () => post(key, name)))
        for (const answer of answers) assert.equal(answer.status, 200, answer.text)
        assert.equal(new Set(answers.map(({ text }) => text)).size, 1)
        const made = answers.filter(({ headers }) => headers.get('idempotent-replayed') === null)
        assert.equal(made.length, 1, name)
      }),
    )
  }
  const rooms = await written('org_races')
  assert.deepEqual([...rooms.keys()].sort(), [...keys].sort())
  for (const [room, counts] of rooms) assert.deepEqual(counts, [1, 1], room)
})

test('a race of two contents: one is written, the other is told of the mismatch', async () => {
  const { key } = await host.key('org_contents')
  for (let race = 0; race < 10; race++) {
    const answers = await Promise.all(['A', 'B', 'A', 'B'].map((room) => post(key, `contents-${race}`, room)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 422, 422])
  }
})

test('50 kills of connections of the store and of the host: every key ends with one booking, one event and one reply', async (t) => {
  const { key } = await host.key('org_kills')
  const replies = new Map<string, Set<string>>()
  const statuses = new Map<number, number>()
  let kills = 0
  let made = 0

  async function call(): Promise<void> {
    while (kills < 50) {
      const name = `kill-${made++}`
      const texts = new Set<string>()
      replies.set(name, texts)
      // Twice beyond the first success, as a caller whose answer was lost.
      for (let successes = 0; successes < 2; ) {
        const { status, text } = await post(key, name)
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        if (status !== 200) continue
        successes++
        texts.add(text)
      }
    }
  }

  async function kill(): Promise<void> {
    const { default: pg } = await import('pg')
    const killer = new pg.Client({ connectionString: host.url })
    await killer.connect()
    while (kills < 50) {
      const { rows } = await killer.query(
        'select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
      )
      const victim = rows[randomInt(Math.max(1, rows.length))]
      if (victim) {
        const { rowCount } = await killer.query('select pg_terminate_backend($1)', [victim.pid])
        kills += rowCount ?? 0
      }
      await sleep(randomInt(30))
    }
    await killer.end()
  }

  await Promise.all([kill(), ...Array.from({ length: 12 }, call)])
  t.diagnostic(`${kills} kills, ${made} keys, statuses ${JSON.stringify([...statuses])}`)
  const rooms = await written('org_kills')
  assert.equal(rooms.size, replies.size)
  for (const [name, texts] of replies) {
    assert.equal(texts.size, 1, name)
    assert.deepEqual(rooms.get(name), [1, 1], name)
  }
  assert.ok((statuses.get(200) ?? 0) >= 100)
})

test('a key is revoked under load: no booking of a request that came after it', async () => {
  const organizationId = 'org_revoked'
  const { id, key } = await host.key(organizationId)
  let isRevoked = false
  const load = Array.from({ length: 8 }, async (_, worker) => {
    for (let index = 0; ; index++) {
      const cameAfter = isRevoked
      const answer = await post(key, `revoked-${worker}-${index}`)
      if (answer.status === 401) return
      assert.ok(answer.status === 200 && !cameAfter, answer.text)
    }
  })
  await sleep(100)
  await host.settings.apiKeys.revoke(organizationId, id)
  isRevoked = true
  await Promise.all(load)
})
