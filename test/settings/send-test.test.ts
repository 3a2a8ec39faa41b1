import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import * as v from 'valibot'
import { INVALID_INPUT, LIMIT_REACHED, NOT_FOUND, SECRET_UNAVAILABLE } from '../../lib/base/errors.ts'
import { EVENT_TYPES, eventSchemas } from '../../lib/resources/event-catalogue.ts'
import type { ServiceOptions } from '../../lib/service.ts'
import {
  createDeveloperSettings,
  type DeveloperSettingsOptions,
  type NewEndpoint,
} from '../../lib/settings.ts'
import type { WebhookSender } from '../../lib/webhooks/webhook-sender.ts'
import { createWebhookSender, verifyWebhook } from '../../lib/webhooks.ts'
import { named } from '../_service.ts'
import {
  type AnswerRequest,
  startRawReceiver,
  startReceiver,
  startSecureReceiver,
} from '../sender/_receiver.ts'
import { CERTIFICATE } from '../sender/_receiver-certificate.ts'
import { createLocalSender, createSender, resolveTo } from '../sender/_setup.ts'
import { untyped } from './_refusals.ts'
import { claim, describeOnEveryStore, newOrganization, publish, record } from './_stores.ts'

const KEY = randomBytes(32)
const EVENT_ID = /^evt_test_[0-9A-HJKMNP-TV-Z]{26}$/

describeOnEveryStore((open) => {
  /** Settings for a new organization, by default in development. */
  function setUp(context: TestContext, options: DeveloperSettingsOptions = {}, names: ServiceOptions = {}) {
    const store = named(open(), names)
    const settings = createDeveloperSettings(store, {
      secretKeys: [KEY],
      allowPrivateNetworks: true,
      allowHttp: true,
      sender: createLocalSender(context),
      ...options,
    })
    return { store, ...settings, organizationId: newOrganization() }
  }

  /** An endpoint on this machine. */
  async function register(context: TestContext, given: Partial<NewEndpoint> = {}, answer?: AnswerRequest) {
    const receiver = await startReceiver(context, answer)
    const under = setUp(context)
    const endpoint = await under.endpoints.register(under.organizationId, {
      url: `${receiver.origin}/hook?from=é`,
      ...given,
    })
    const sendTest = (options?: Parameters<typeof under.endpoints.sendTest>[2]) =>
      under.endpoints.sendTest(under.organizationId, endpoint.id, options)
    return { ...under, receiver, endpoint, sendTest }
  }

  describe('endpoints.sendTest()', () => {
    test('endpoints.sendTest() makes one signed attempt, like a delivery, and returns the result', async (t) => {
      const { receiver, endpoint, sendTest } = await register(t, { headers: { 'X-Key': 'a' } }, (response) =>
        response.writeHead(201).end('thanks 🏺'),
      )
      const { durationMs, connectMs, firstByteMs, ...result } = await sendTest()
      const { eventId } = result
      assert.match(eventId, EVENT_ID)
      assert.deepEqual(result, {
        delivered: true,
        eventId,
        type: 'client.created',
        status: 201,
        error: null,
        dnsMs: null,
        tlsMs: null,
        bodyExcerpt: 'thanks 🏺',
        location: null,
      })
      assert.ok(durationMs > 0 && durationMs < 10_000 && (connectMs ?? -1) >= 0 && (firstByteMs ?? -1) >= 0)

      const [request, ...others] = receiver.requests
      assert.ok(request && others.length === 0)
      assert.deepEqual([request.method, request.path], ['POST', '/hook?from=%C3%A9'])
      const { headers, body } = request
      assert.deepEqual(
        [
          headers['content-type'],
          headers['x-service-event-id'],
          headers['x-service-event-type'],
          headers['x-key'],
        ],
        ['application/json', eventId, 'client.created', 'a'],
      )
      const { timestamp } = verifyWebhook(body, headers['x-service-signature'], endpoint.secret)
      assert.ok(Math.abs(timestamp - Date.now() / 1000) < 60)
      const { id, type, createdAt, data } = JSON.parse(body)
      assert.deepEqual([id, type], [eventId, 'client.created'])
      assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      assert.deepEqual(v.parse(eventSchemas['client.created'], data), data)
    })

    test('endpoints.sendTest() sends the given type, or the first the endpoint is subscribed to', async (t) => {
      // An organization can send up to ten.
      for (let first = 0; first < EVENT_TYPES.length; first += 9) {
        const { receiver, sendTest } = await register(t, { types: ['invoice.paid', 'lead.created'] })
        assert.equal((await sendTest()).type, 'invoice.paid')
        for (const type of EVENT_TYPES.slice(first, first + 9)) {
          assert.equal((await sendTest({ type })).type, type)
          const { data, ...envelope } = JSON.parse(receiver.requests.at(-1)?.body ?? '{}')
          assert.equal(envelope.type, type)
          assert.deepEqual(v.parse(eventSchemas[type], data), data)
        }
        const eventIds = receiver.requests.map(({ headers }) => headers['x-service-event-id'])
        assert.equal(new Set(eventIds).size, receiver.requests.length)
      }
    })

    test('endpoints.sendTest() sends ten at once for all endpoints of the organization, and rejects one more', async (t) => {
      const { receiver, endpoints, organizationId, sendTest, audit } = await register(t)
      const other = await endpoints.register(organizationId, { url: `${receiver.origin}/other` })
      const sent = await Promise.allSettled([
        ...Array.from({ length: 6 }, () => sendTest()),
        ...Array.from({ length: 6 }, () => endpoints.sendTest(organizationId, other.id)),
      ])
      const refused = sent.filter(({ status }) => status === 'rejected')
      assert.equal(refused.length, 2)
      await assert.rejects(sendTest(), { code: LIMIT_REACHED })
      assert.equal(receiver.requests.length, 10)
      const { data } = await audit.list(organizationId)
      assert.equal(data.filter(({ action }) => action === 'endpoint.test_sent').length, 10)
    })

    test('endpoints.sendTest() signs with the previous secret as well during the overlap of a rotation', async (t) => {
      const { receiver, endpoints, organizationId, endpoint, sendTest } = await register(t)
      const { secret } = await endpoints.rotateSecret(organizationId, endpoint.id)
      await sendTest()
      const { body = '', headers = {} } = receiver.requests[0] ?? {}
      for (const one of [secret, endpoint.secret]) verifyWebhook(body, headers['x-service-signature'], one)
    })

    test("endpoints.sendTest() leaves no event or delivery and doesn't count for or against the endpoint", async (t) => {
      let status = 410
      const { store, endpoints, deliveries, organizationId, sendTest } = await register(t, {}, (response) =>
        response.writeHead(status).end(),
      )
      await publish(store, organizationId)
      await record(store, await claim(store, organizationId), 'failed')
      const before = [await endpoints.list(organizationId), await deliveries.list(organizationId)]
      assert.equal((await sendTest()).status, 410)
      status = 204
      assert.equal((await sendTest()).delivered, true)
      assert.deepEqual([await endpoints.list(organizationId), await deliveries.list(organizationId)], before)
      assert.deepEqual(await claim(store, organizationId), [])
    })

    test('endpoints.sendTest() works while the endpoint is paused or disabled', async (t) => {
      const { endpoints, organizationId, endpoint, sendTest } = await register(t)
      for (const verb of ['pause', 'disable'] as const) {
        await endpoints[verb](organizationId, endpoint.id)
        assert.equal((await sendTest()).delivered, true)
      }
    })

    test('endpoints.sendTest() reports a rejection, a redirect and a missing response like the delivery log does', async (t) => {
      const answers: [AnswerRequest, number][] = [
        [(response) => response.writeHead(500).end('oops'), 500],
        [(response) => response.writeHead(302, { location: 'http://127.0.0.1:9999/' }).end(), 302],
      ]
      for (const [answer, status] of answers) {
        const { sendTest } = await register(t, {}, answer)
        const { delivered, status: got, error } = await sendTest()
        assert.deepEqual([delivered, got, error], [false, status, null])
      }
      const receiver = await startRawReceiver(t, (socket) => socket.destroy())
      const { sendTest } = await register(t, { url: receiver.origin })
      const { delivered, status, error, bodyExcerpt } = await sendTest()
      assert.deepEqual([delivered, status, error, bodyExcerpt], [false, null, 'connection_reset', ''])
    })

    test('endpoints.sendTest() supports TLS and returns the duration', async (t) => {
      const receiver = await startSecureReceiver(t)
      const { endpoints, organizationId } = setUp(t, {
        sender: createLocalSender(t, { ca: CERTIFICATE, lookup: resolveTo('127.0.0.1') }),
      })
      const url = `https://receiver.test:${receiver.port}/`
      const { id } = await endpoints.register(organizationId, { url })
      const { delivered, dnsMs, tlsMs } = await endpoints.sendTest(organizationId, id)
      assert.ok(delivered && (dnsMs ?? -1) >= 0 && (tlsMs ?? -1) >= 0)
    })

    test("endpoints.sendTest() shows no address if it's rejected", async (t) => {
      const receiver = await startReceiver(t)
      const lookup = resolveTo('127.0.0.1')
      const { endpoints, organizationId } = setUp(t, { sender: createSender(t, { lookup }) })
      const url = `https://receiver.test:${receiver.port}/`
      const { id } = await endpoints.register(organizationId, { url })
      const {
        durationMs: _,
        dnsMs: __,
        eventId: ___,
        ...result
      } = await endpoints.sendTest(organizationId, id)
      assert.deepEqual(result, {
        delivered: false,
        type: 'client.created',
        status: null,
        error: 'destination_not_allowed',
        connectMs: null,
        tlsMs: null,
        firstByteMs: null,
        bodyExcerpt: '',
        location: null,
      })
      assert.equal(receiver.accepted, 0)
    })

    test('endpoints.sendTest() sends headers with the host’s own prefix', async (t) => {
      const receiver = await startReceiver(t)
      const { endpoints, organizationId } = setUp(t, {}, { headerPrefix: 'Acme' })
      const { id } = await endpoints.register(organizationId, { url: receiver.origin })
      const { eventId } = await endpoints.sendTest(organizationId, id)
      assert.equal(receiver.requests[0]?.headers['acme-event-id'], eventId)
    })

    test("endpoints.sendTest() throws secret_unavailable if the keys can't open the secret, and sends nothing", async (t) => {
      const { store, receiver, organizationId, endpoint, audit } = await register(t)
      const sender = createLocalSender(t)
      const before = await audit.list(organizationId)
      for (const secretKeys of [undefined, [randomBytes(32)]]) {
        const { endpoints } = createDeveloperSettings(store, { secretKeys, sender })
        await assert.rejects(endpoints.sendTest(organizationId, endpoint.id), (error: unknown) => {
          assert.ok(error instanceof Error && 'code' in error && error.code === SECRET_UNAVAILABLE)
          assert.doesNotMatch(inspect(error), /whsec_|v1\./)
          return true
        })
      }
      assert.deepEqual([receiver.accepted, await audit.list(organizationId)], [0, before])
    })

    test('endpoints.sendTest() without a sender throws a TypeError with advice', async (t) => {
      const { endpoints, organizationId } = setUp(t, { sender: undefined })
      const { id } = await endpoints.register(organizationId, { url: 'http://127.0.0.1:9999/' })
      await assert.rejects(endpoints.sendTest(organizationId, id), {
        name: 'TypeError',
        message:
          /^Cannot send a test webhook because option 'sender' is not set: .* createWebhookSender\(\)$/,
      })
    })

    test('endpoints.sendTest() throws if nothing could be sent because the sender is closed or throws', async (t) => {
      const closed = createWebhookSender({ allowPrivateNetworks: true, allowHttp: true })
      await closed.close()
      const failure = new Error('broken')
      const broken: WebhookSender = { send: () => Promise.reject(failure), close: async () => {} }
      for (const [sender, message] of [
        [closed, /^Cannot send a test webhook because the sender is closed$/],
        [broken, /^broken$/],
      ] as const) {
        const { endpoints, organizationId } = setUp(t, { sender })
        const { id } = await endpoints.register(organizationId, { url: 'http://127.0.0.1:9999/' })
        await assert.rejects(endpoints.sendTest(organizationId, id), { name: 'Error', message })
      }
    })

    test("endpoints.sendTest() throws the same not_found for an id that is unknown, removed, another organization's, or invalid", async (t) => {
      const { receiver, endpoints, organizationId, endpoint } = await register(t)
      const theirs = await register(t)
      await endpoints.remove(organizationId, endpoint.id)
      for (const id of [
        theirs.endpoint.id,
        endpoint.id,
        'we_unknown',
        '',
        'nul \0',
        '\ud800',
        endpoint.secret,
      ]) {
        await assert.rejects(endpoints.sendTest(organizationId, id), {
          code: NOT_FOUND,
          message: 'Cannot send a test webhook because the organization has no such record',
        })
      }
      assert.deepEqual([receiver.accepted, theirs.receiver.accepted], [0, 0])
    })

    test("endpoints.sendTest() rejects an unknown type and an id that isn't a string", async (t) => {
      const { endpoints, organizationId, endpoint } = await register(t)
      for (const type of ['client.deleted', '', null, 7]) {
        await assert.rejects(endpoints.sendTest(organizationId, endpoint.id, untyped({ type })), {
          code: INVALID_INPUT,
          message: /^Cannot send a test webhook because type must be one of client\.created, /,
        })
      }
      await assert.rejects(endpoints.sendTest('', untyped(7)), {
        code: INVALID_INPUT,
        message:
          /^Cannot send a test webhook because organizationId must [^;]*; endpointId must be a string$/,
      })
    })
  })
})
