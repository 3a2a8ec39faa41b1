import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'

const NOW = Date.UTC(2026, 2, 14, 9, 26, 53, 589)
const ticket = { ticketId: 'tic_1', subject: 'Help', status: 'open' }

test('publish() records the envelope and returns its id', async () => {
  const store = createMemoryStore()
  const id = await createPlatform(store, { clock: () => NOW }).publish(
    'org_a',
    'support.ticket_created',
    ticket,
  )
  const [event] = store.recordedEvents('org_a')
  assert.match(id, /^evt_[0-9A-HJKMNP-TV-Z]{26}$/)
  const envelope = { id, type: 'support.ticket_created', createdAt: '2026-03-14T09:26:53.589Z', data: ticket }
  assert.equal(event?.body, JSON.stringify(envelope))
})

test('publish() with an existing id keeps the first event', async () => {
  const store = createMemoryStore()
  const { publish } = createPlatform(store)
  assert.equal(await publish('org_a', 'support.ticket_created', ticket, { id: 'mine' }), 'mine')
  await publish('org_a', 'support.ticket_created', { ...ticket, subject: 'Other' }, { id: 'mine' })
  const [event, ...others] = store.recordedEvents('org_a')
  assert.equal(JSON.parse(event?.body ?? '').data.subject, 'Help')
  assert.deepEqual(others, [])
})

test('publish() counts characters like JSON Schema does', async () => {
  const store = createMemoryStore()
  const data = { ...ticket, subject: '🏺'.repeat(500) }
  await createPlatform(store).publish('org_a', 'support.ticket_created', data)
  assert.equal(store.recordedEvents('org_a').length, 1)
})

test("publish() removes fields that the type doesn't have", async () => {
  const store = createMemoryStore()
  const data = { ...ticket, secret: 'nobody’s business' }
  await createPlatform(store).publish('org_a', 'support.ticket_created', data)
  assert.deepEqual(JSON.parse(store.recordedEvents('org_a')[0]?.body ?? '').data, ticket)
})

test('publish() only accepts times in UTC, as the document says', async () => {
  const store = createMemoryStore()
  const { publish } = createPlatform(store)
  const at = (completedAt: string) =>
    publish('org_a', 'marketing.provider_sync_completed', {
      ...{ syncId: 'syn_1', provider: 'ads', records: 0, startedAt: '2026-01-01T00:00:00Z' },
      completedAt,
    })
  for (const time of ['2026-01-01T00:00:00Z', '2024-02-29T23:59:59.999Z', '0001-01-01T00:00:00.000Z'])
    await at(time)
  const wrong = [
    ...['2026-01-01 00:00:00+05', '2026-01-01T00:00:00+0530', '2026-01-01T00:00:00+05:30'],
    ...['2026-01-01T00:00:00-00', '2026-01-01T00:00:00+00', '2026-01-01 00:00:00Z', '2026-01-01T00:00Z'],
    ...['2026-02-30T00:00:00Z', '2026-01-01T24:00:00Z', '2026-01-01T00:00:00.1234Z', '2026-01-01', ''],
  ]
  for (const time of wrong)
    await assert.rejects(
      at(time),
      { code: 'invalid_event', message: /data\.completedAt must be a time in UTC like 2026-\S+Z$/ },
      time,
    )
  assert.equal(store.recordedEvents('org_a').length, 3)
})

test("publish() rejects data that doesn't match the schema, naming the field but no value", async () => {
  const store = createMemoryStore()
  const { publish } = createPlatform(store)
  const odd: (readonly [type: unknown, data: unknown, id: unknown, message: RegExp])[] = [
    ['support.ticket_created', { ...ticket, subject: 42 }, undefined, /data\.subject must be string/],
    ['support.ticket_created', { ticketId: 'tic_1', status: 'open' }, undefined, /data\.subject/],
    ['support.ticket_created', null, undefined, /data must be/],
    ['support.ticket_created', { ...ticket, subject: 'a\0b' }, undefined, /data\.subject must be/],
    ['support.ticket_created', { ...ticket, status: '\ud800' }, undefined, /data\.status must be/],
    [
      'support.ticket_created',
      { ...ticket, subject: '🏺'.repeat(501) },
      undefined,
      /data\.subject must have length <=500/,
    ],
    ['support.ticket_creatd', ticket, undefined, /type/],
    ['constructor', ticket, undefined, /type/],
    ['support.ticket_created', ticket, 'with space', /id must be 1 to 64/],
    ['support.ticket_created', ticket, '', /id must be 1 to 64/],
    ...[undefined, null, Symbol('x'), ['support.ticket_created'], Object.create(null)].map(
      (type) => [type, ticket, undefined, /its type must be one of/] as const,
    ),
    ...[null, 5, 5n, true, ['mine'], () => 1, Symbol('x'), Object('mine'), Object.create(null)].map(
      (id) => ['support.ticket_created', ticket, id, /id must be 1 to 64/] as const,
    ),
  ]
  for (const [type, data, id, message] of odd) {
    const attempt = Reflect.apply(publish, undefined, ['org_a', type, data, { id }])
    await assert.rejects(attempt, { name: 'BusinessApiError', code: 'invalid_event', message })
  }
  await assert.rejects(publish('', 'support.ticket_created', ticket), { code: 'invalid_input' })
  assert.deepEqual(store.recordedEvents('org_a'), [])
})
