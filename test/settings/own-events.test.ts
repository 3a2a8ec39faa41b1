import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createDeveloperSettings } from '../../lib/settings.ts'
import type { WebhookRequest, WebhookSender } from '../../lib/webhooks.ts'
import { BOOKING, bookingCreated, bookings } from '../_own-events.ts'
import { untyped } from '../delivery/_loop.ts'
import { createSetUp, KEY, NOW, URL } from './_endpoints.ts'
import { describeOnEveryStore, publish } from './_stores.ts'

// A host's own event types in the settings. Which types exist depends on the store's service.

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)
  const OWN = { events: bookings.events }
  const both = ['booking.created', 'invoice.paid'] as const

  function setUpOwn(sender?: WebhookSender) {
    const { store, organizationId } = setUp({}, OWN)
    const settings = createDeveloperSettings(
      { ...store, service: bookings },
      {
        clock: () => NOW,
        secretKeys: [KEY],
        allowPrivateNetworks: true,
        sender,
      },
    )
    return { store, settings, organizationId }
  }

  describe('own event types', () => {
    test('can be selected by endpoints, and an unknown name is rejected with a list of all names', async () => {
      const { settings, organizationId } = setUpOwn()
      const { id, types } = await settings.endpoints.register(organizationId, { url: URL, types: both })
      assert.deepEqual(types, both)
      const { types: changed } = await settings.endpoints.update(organizationId, id, {
        types: ['booking.cancelled'],
      })
      assert.deepEqual(changed, ['booking.cancelled'])
      const misspelt = untyped<'booking.created'[]>(['booking.creatd'])
      const refused = {
        code: 'invalid_input',
        message: /types must be null, or one or more of client\.created, .*, booking\.cancelled, each once$/,
        fields: ['types'],
      }
      await assert.rejects(
        settings.endpoints.register(organizationId, { url: URL, types: misspelt }),
        refused,
      )
      await assert.rejects(settings.endpoints.update(organizationId, id, { types: misspelt }), refused)
      const { settings: plain } = setUp()
      await assert.rejects(plain.endpoints.register(organizationId, { url: URL, types: untyped(both) }), {
        code: 'invalid_input',
      })
    })

    test("of an endpoint survive updates by a version without them, which can't add others", async () => {
      const { store, settings, organizationId } = setUpOwn()
      const { id } = await settings.endpoints.register(organizationId, { url: URL, types: both })
      const { endpoints: older } = createDeveloperSettings(
        { ...store, service: setUp().store.service },
        { clock: () => NOW, secretKeys: [KEY], allowPrivateNetworks: true },
      )
      const { types } = await older.get(organizationId, id)
      assert.deepEqual(types, both)
      const kept = untyped<'invoice.paid'[]>(['booking.created', 'client.created'])
      assert.deepEqual((await older.update(organizationId, id, { types: kept })).types, kept)
      const added = untyped<'invoice.paid'[]>(['booking.created', 'booking.cancelled'])
      await assert.rejects(older.update(organizationId, id, { types: added }), {
        code: 'invalid_input',
        fields: ['types'],
      })
    })

    test('filter events and deliveries, including by own record', async () => {
      const { store, settings, organizationId } = setUpOwn()
      await settings.endpoints.register(organizationId, { url: URL, types: both })
      for (const type of ['booking.created', 'booking.cancelled', 'invoice.paid'])
        await publish(store, organizationId, type)
      const { data: events } = await settings.events.list(organizationId, { type: 'booking.cancelled' })
      assert.deepEqual(
        events.map(({ type, deliveries }) => [type, deliveries]),
        [['booking.cancelled', {}]],
      )
      const { data: deliveries } = await settings.deliveries.list(organizationId, { type: 'booking.created' })
      assert.deepEqual(
        deliveries.map(({ type }) => type),
        ['booking.created'],
      )
      assert.equal(await settings.deliveries.count(organizationId, { type: 'booking.created' }), 1)
      for (const call of [
        settings.events.list,
        settings.deliveries.list,
        settings.deliveries.recover,
        settings.deliveries.countRecoverable,
      ]) {
        const refused = {
          code: 'invalid_input',
          message: /type must be one of client\.created, .*booking\.cancelled$/,
        }
        await assert.rejects(
          call(organizationId, { type: untyped<'invoice.paid'>('booking.creatd') }),
          refused,
        )
      }
    })

    test('can be followed', async () => {
      const { store, settings, organizationId } = setUpOwn()
      const follow = settings.events.follow(organizationId, {
        types: ['booking.created'],
        intervalMs: 100,
        onBegin: async () => {
          await publish(store, organizationId, 'booking.cancelled')
          await publish(store, organizationId, 'booking.created')
        },
      })
      for await (const { type } of follow) {
        assert.equal(type, 'booking.created')
        break
      }
    })

    test("are tested with their example, by default the first of the endpoint's types that the service has", async () => {
      const sent: WebhookRequest[] = []
      const sender: WebhookSender = {
        send: async (request) => {
          sent.push(request)
          return { status: 204, error: null, bodyExcerpt: '', durationMs: 1 }
        },
        close: async () => {},
      }
      const { store, settings, organizationId } = setUpOwn(sender)
      const { id } = await settings.endpoints.register(organizationId, { url: URL, types: both })
      assert.equal((await settings.endpoints.sendTest(organizationId, id)).type, 'booking.created')
      const { type } = await settings.endpoints.sendTest(organizationId, id, { type: 'booking.cancelled' })
      assert.equal(type, 'booking.cancelled')
      const older = createDeveloperSettings(
        { ...store, service: setUp().store.service },
        { clock: () => NOW, secretKeys: [KEY], sender },
      )
      assert.equal((await older.endpoints.sendTest(organizationId, id)).type, 'invoice.paid')
      const bodies = sent.map(({ body }) => JSON.parse(String(body)))
      assert.deepEqual(bodies[0].data, bookingCreated.example)
      assert.deepEqual(bodies[1].data, { bookingId: BOOKING.bookingId.replace('7', '1'), reason: 'guest' })
    })
  })
})
