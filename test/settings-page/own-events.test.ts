import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { BOOKING, bookings } from '../_own-events.ts'
import { hiddenOf, ORGANIZATION, setUp, wordsOf } from './_page.ts'

const URL = 'https://hooks.example.com/bookings'

/** The checked types of a form. */
const checkedIn = (text: string): string[] =>
  [...text.matchAll(/name="type" value="([^"]*)" checked/g)].map(([, type = '']) => type)

test('the form of an endpoint has own types by group, with description and example, after those of the catalogue', async () => {
  const under = setUp({ store: createMemoryStore({ service: bookings }) })
  const { text } = await under.get('/endpoints/new')
  const groups = [...text.matchAll(/<h3 id="types-(\w+)">/g)].map(([, name]) => name)
  assert.equal(groups.at(-1), 'booking')
  const group = text.slice(text.indexOf('types-booking'))
  assert.match(
    wordsOf(group),
    /booking All current booking events booking\.created A booking was made\. Carries its room and its start\. Example/,
  )
  assert.match(group, /&quot;name&quot;: &quot;Atlas&quot;/)
  assert.equal(text.match(/class="ba-own-type"/g)?.length, 2)
  assert.doesNotMatch((await setUp().get('/endpoints/new')).text, /ba-own-type|types-booking/)

  const fields = { url: URL, wants: 'some', type: ['booking.created', 'invoice.paid'] }
  assert.equal((await under.submit('/endpoints/new', fields)).status, 200)
  const [endpoint] = await under.settings.endpoints.list(ORGANIZATION)
  assert.deepEqual(endpoint?.types, ['invoice.paid', 'booking.created'])
  const show = await under.get(`/endpoints/${endpoint?.id}`)
  assert.match(show.words, /invoice\.paid, booking\.created/)
})

test('a version without an endpoint’s type keeps it through a change of another field, and offers no other', async () => {
  const newer = createMemoryStore({ service: bookings })
  const older = { ...newer, service: createMemoryStore().service }
  const under = setUp({ store: older })
  const { endpoints } = createDeveloperSettings(newer, {
    localDevelopment: true,
    allowPlaintextSecrets: true,
  })
  const { id } = await endpoints.register(ORGANIZATION, {
    url: 'http://127.0.0.1:4000/',
    types: ['booking.created', 'invoice.paid'],
  })
  const form = await under.get(`/endpoints/${id}/edit`)
  assert.deepEqual(checkedIn(form.text), ['invoice.paid', 'booking.created'])
  assert.doesNotMatch(form.text, /booking\.cancelled/)
  const fields = {
    url: 'http://127.0.0.1:4000/',
    wants: 'some',
    type: checkedIn(form.text),
    description: 'Front desk',
  }
  assert.equal((await under.submit(`/endpoints/${id}/edit`, fields)).status, 303)
  const endpoint = await endpoints.get(ORGANIZATION, id)
  assert.deepEqual(
    [endpoint.description, endpoint.types],
    ['Front desk', ['invoice.paid', 'booking.created']],
  )
  const forged = await under.submit(`/endpoints/${id}/edit`, { ...fields, type: ['booking.cancelled'] })
  assert.equal(forged.status, 422)
  assert.match(forged.words, /Select events from the list/)
})

test('own types are filters of the log, tests of an endpoint, and in the reference', async () => {
  const store = createMemoryStore({ service: bookings })
  const sent: string[] = []
  const sender = {
    send: async ({ headers }: { headers: object }) => {
      sent.push(JSON.stringify(headers))
      return { status: 204, error: null, bodyExcerpt: '', durationMs: 1 }
    },
    close: async () => {},
  }
  const under = setUp({ store, settings: { sender }, api: createBusinessApi(store, { logger: false }) })
  const { id } = await under.settings.endpoints.register(ORGANIZATION, { url: 'http://127.0.0.1:4000/' })
  await createPlatform(store).publish(ORGANIZATION, 'booking.created', BOOKING)
  await createPlatform(store).publish(ORGANIZATION, 'booking.cancelled', { bookingId: 'b', reason: 'host' })
  const log = await under.get('/deliveries?type=booking.created')
  assert.match(log.text, /<option value="booking\.created" selected>/)
  assert.equal(log.text.match(/href="[^"]*\/deliveries\/dlv_/g)?.length, 1)
  const stamp = hiddenOf(await under.get(`/endpoints/${id}`))
  const test = await under.post(`/endpoints/${id}/test`, { ...stamp, type: 'booking.cancelled' })
  assert.match(test.words, /Test event delivered \(booking\.cancelled\)/)
  assert.match(sent.join(), /booking\.cancelled/)
  const reference = await under.get('/reference/onBookingCreated')
  assert.match(reference.words, /room\.name .*The name on the door\./)
  assert.match((await under.get('/reference/webhooks')).text, /booking\.cancelled/)
  assert.deepEqual(under.errors, [])
})
