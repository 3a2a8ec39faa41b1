import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import type { EventData } from '../../lib/index.ts'
import { captureWebhooks, waitForDelivery } from '../../lib/testing.ts'
import { signWebhook } from '../../lib/webhooks.ts'
import { programArguments } from '../_program.ts'
import { createHost, ORGANIZATION } from './_host.ts'

test('captureWebhooks() registers itself, and next() returns typed events in the order they are received', async (t) => {
  const { platform, settings, loop } = createHost(t)
  const captured = await captureWebhooks({ settings, organizationId: ORGANIZATION })
  t.after(() => captured.close())
  loop.start()
  const invoice = await platform.invoices.create(ORGANIZATION, {
    currency: 'TND',
    total: '1250',
    dueDate: new Date(Date.now() + 1e9),
  })
  await platform.invoices.issue(ORGANIZATION, { invoiceId: invoice.id })
  const [paid] = await Promise.all([
    captured.next('invoice.paid'),
    platform.invoices.recordPayment(ORGANIZATION, { invoiceId: invoice.id, amount: '1250' }),
  ])
  const data: EventData<'invoice.paid'> = paid.data
  assert.deepEqual(data, { invoiceId: invoice.id, number: invoice.number })
  assert.equal((await captured.next('payment.received')).data.amount, '1250.000')
  assert.equal(captured.events.length, 3)
  assert.deepEqual(captured.refusals, [])
})

test('captureWebhooks() with types receives no other events', async (t) => {
  const { store, platform, settings, loop } = createHost(t)
  const organizationId = ORGANIZATION
  const captured = await captureWebhooks({ settings, organizationId, types: ['client.created'] })
  t.after(() => captured.close())
  loop.start()
  await platform.clients.create(organizationId, { name: 'Atlas' })
  const { id: eventId } = await captured.next('client.created')
  await waitForDelivery(store, { organizationId, eventId })
  assert.deepEqual(
    captured.events.map(({ type }) => type),
    ['client.created'],
  )
})

test('captureWebhooks() with a response sees retries and keeps each event once', async (t) => {
  const { clock, store, platform, settings, loop } = createHost(t)
  const organizationId = ORGANIZATION
  let asked = 0
  const answer = (): number => [500, 204][asked++] ?? 204
  const captured = await captureWebhooks({ settings, organizationId, answer, clock })
  t.after(() => captured.close())
  const eventId = await platform.publish(organizationId, 'support.ticket_created', {
    ticketId: 't',
    subject: 'Help',
    status: 'open',
  })
  await loop.runOnce()
  assert.deepEqual([asked, captured.events.length], [1, 0])
  assert.deepEqual(
    captured.failures.map(({ event, status }) => [event.id, status]),
    [[eventId, 500]],
  )
  await assert.rejects(
    captured.next('support.ticket_created', { timeoutMs: 1 }),
    /come: nothing; answered with an error: support\.ticket_created with 500$/,
  )
  clock.advance(30_000)
  await loop.runOnce()
  assert.equal((await captured.next('support.ticket_created')).id, eventId)
  const [delivery] = await store.deliveries.list(organizationId, { eventId }, 1, null)
  await settings.deliveries.redeliver(organizationId, delivery?.id ?? '')
  await loop.runOnce()
  assert.deepEqual([asked, captured.events.length], [3, 1])
})

test('captureWebhooks() counts a webhook as a failure with 500 if answer throws or returns an invalid status', async (t) => {
  const { clock, platform, settings, loop } = createHost(t)
  const organizationId = ORGANIZATION
  const answers: (() => unknown)[] = [
    () => undefined,
    () => 99,
    () => 1000,
    () => Number.NaN,
    () => '200',
    () => 103,
    () => {
      throw new Error('of the test')
    },
    async () => {
      throw new Error('later')
    },
    async () => 503,
  ]
  let asked = 0
  const answer = () => answers[asked++]?.() as number
  const captured = await captureWebhooks({ settings, organizationId, answer, clock })
  t.after(() => captured.close())
  for (const _ of answers) {
    await platform.publish(organizationId, 'support.ticket_created', {
      ticketId: 't',
      subject: 'S',
      status: 'open',
    })
    await loop.runOnce()
  }
  const statuses = captured.failures.map(({ status }) => status)
  assert.deepEqual(statuses, [500, 500, 500, 500, 500, 500, 500, 500, 503])
  assert.deepEqual([captured.events, captured.refusals], [[], []])
  await assert.rejects(
    captured.next('support.ticket_created', { timeoutMs: 1 }),
    /must return a status from 200 to 599: it returned undefined.* with 500 \(Error: of the test\), .* with 503$/,
  )
})

test('captureWebhooks() rejects a webhook with a different secret, and next() reports it on timeout', async (t) => {
  const captured = await captureWebhooks()
  t.after(() => captured.close())
  captured.verifyWith('whsec_right')
  const body = JSON.stringify({ id: 'evt_1', type: 'invoice.paid', createdAt: '', data: {} })
  const post = (secret: string) =>
    fetch(captured.url, {
      method: 'POST',
      body,
      headers: { 'X-SERVICE-Signature': signWebhook(body, secret) },
    })
  assert.equal((await post('whsec_wrong')).status, 400)
  await assert.rejects(captured.next('invoice.paid', { timeoutMs: 20 }), {
    message: /^No invoice\.paid has arrived within 20 ms: come: nothing; refused: .*no signature matches/,
  })
  captured.verifyWith(['whsec_new', 'whsec_right'])
  assert.equal((await post('whsec_right')).status, 204)
  assert.equal((await captured.next('invoice.paid')).id, 'evt_1')
  await assert.rejects(captured.next('invoice.paid', { timeoutMs: 20 }), /come: invoice\.paid; refused/)
})

test('next() mentions the loop if nothing was received, and rejects if the capture is closed', async () => {
  const captured = await captureWebhooks()
  await assert.rejects(captured.next('lead.created', { timeoutMs: 20 }), {
    message: 'No lead.created has arrived within 20 ms: nothing has arrived. Is a delivery loop running?',
  })
  const waiting = assert.rejects(captured.next('lead.created'), /because the capture is closed$/)
  await captured.close()
  await captured.close()
  await waiting
  await assert.rejects(fetch(captured.url))
})

test('captureWebhooks() rejects incomplete options and passes on the error if an endpoint is rejected', async (t) => {
  const { settings } = createHost(t)
  await assert.rejects(captureWebhooks({ settings }), TypeError)
  await assert.rejects(captureWebhooks({ settings, organizationId: '' }), { code: 'invalid_input' })
})

test('captureWebhooks() lets a process exit that forgot to close it', async () => {
  const begunAt = performance.now()
  const { stdout } = await promisify(execFile)(
    process.execPath,
    programArguments(join(import.meta.dirname, '_forgetful.ts')),
    { timeout: 60_000 },
  )
  const endedAt = performance.now()
  assert.equal(stdout, 'client.created')
  assert.ok(endedAt - begunAt < 30_000)
})
