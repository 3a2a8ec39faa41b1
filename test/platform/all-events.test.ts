import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBusinessApi } from 'business-api-kit'
import { createPlatform, type Platform } from 'business-api-kit/platform'
import { createPostgresStore, type PostgresStore } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createDeliveryLoop, createWebhookSender, verifyWebhook } from 'business-api-kit/webhooks'
import * as v from 'valibot'
import {
  EVENT_TYPES,
  type EventData,
  type EventType,
  eventSchemas,
} from '../../lib/resources/event-catalogue.ts'
import type { EventEnvelope } from '../../lib/writes/event-envelope.ts'
import { createTestDatabase } from '../_database.ts'
import { type Received, startReceiver } from '../sender/_receiver.ts'
import { CALLS, invoke } from './_calls.ts'
import { invoiceIn } from './_records.ts'

// Each type of the catalogue is published by a call of this library and arrives at a subscriber's socket, signed and
// with exactly the data in its schema.

/** The types listed in the specification (section 6). */
const SPECIFIED = [
  ...['client.created', 'lead.created', 'lead.stage_changed', 'business.created', 'project.completed'],
  ...['proposal.created', 'proposal.sent', 'proposal.accepted', 'proposal.rejected'],
  ...['invoice.issued', 'invoice.paid', 'invoice.overdue', 'payment.received'],
  ...['support.ticket_created', 'support.ticket_status_changed'],
  ...['marketing.campaign_created', 'marketing.campaign_activated', 'marketing.campaign_paused'],
  ...['marketing.campaign_completed', 'marketing.campaign_submitted', 'marketing.campaign_failed'],
  ...['marketing.lead_captured', 'marketing.attribution_captured', 'marketing.provider_sync_completed'],
]

const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }
const ORGANIZATION = 'org_a'

test('every event type is published by a call and arrives verified with the data in its schema', async (t) => {
  const database = await createTestDatabase()
  const store = createPostgresStore(database.url)
  const sender = createWebhookSender(DEVELOPMENT)
  const receiver = await startReceiver(t)
  const secretKeys = ['0123456789abcdef'.repeat(4)]
  const loop = createDeliveryLoop(store, sender, { secretKeys })
  t.after(async () => {
    await sender.close()
    await store.close()
    await database.drop()
  })
  const settings = createDeveloperSettings(store, { ...DEVELOPMENT, secretKeys })
  const { secret } = await settings.endpoints.register(ORGANIZATION, { url: `${receiver.origin}/hook` })

  const platform = createPlatform(store)
  const { clientId, leadId } = await createThroughApi(store, platform)
  await changeRecords(platform)
  await publishForTheHost(platform, leadId)
  await loop.runOnce()

  const events = receiver.requests.map((request) => verify(request, secret))
  assert.deepEqual(new Set(events.map(({ type }) => type)), new Set(EVENT_TYPES))
  const missing = SPECIFIED.filter((type) => !EVENT_TYPES.some((known) => known === type))
  assert.deepEqual(missing, [])
  for (const { type, data } of events) assertData(type, data)
  for (const type of EVENT_TYPES) {
    const { id, data } = events.find((event) => event.type === type) ?? assert.fail()
    const subjectId = Reflect.get(data, eventSchemas[type].subject)
    const found = await settings.events.list(ORGANIZATION, { subjectId, type })
    assert.ok(
      found.data.some((event) => event.id === id),
      `${type} is not found by ${subjectId}`,
    )
  }
  const created = events.find(({ type }) => type === 'client.created')
  assert.equal(Reflect.get(created?.data ?? {}, 'clientId'), clientId)
})

/** What can be created with the API: a client and a lead. */
async function createThroughApi(
  store: PostgresStore,
  platform: Platform,
): Promise<{ clientId: string; leadId: string }> {
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true })
  const scopes = ['clients:write', 'leads:write'] as const
  const { key } = await settings.apiKeys.create(ORGANIZATION, { name: 'Website', scopes })
  const api = createBusinessApi(store)
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  async function post(path: string, body: object): Promise<{ id: string; business: { id: string } }> {
    const request = new Request(`http://x/api/v1/${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    const response = await api(request)
    assert.equal(response.status, 200)
    const { data } = JSON.parse(await response.text())
    return data
  }
  const { id: clientId, business } = await post('clients', { name: 'Écume Ceramics 🏺' })
  const { id: leadId } = await post('leads', { businessId: business.id })
  await platform.leads.setStage(ORGANIZATION, { leadId, stage: 'qualified' })
  return { clientId, leadId }
}

/** Every call of the host that publishes an event, each with its own record. */
async function changeRecords(platform: Platform): Promise<void> {
  const host = { organizationId: ORGANIZATION, platform }
  for (const call of CALLS.filter(({ events }) => events.length > 0)) {
    const id = await call.make(host)
    await invoke(host, call, call.idField === undefined ? {} : { [call.idField]: id })
  }
  await invoiceIn(host, 'overdue')
}

/** Support tickets and marketing campaigns are records of the host. */
async function publishForTheHost({ publish }: Platform, leadId: string): Promise<void> {
  const campaign = { campaignId: 'cmp_1', name: 'Spring', status: 'active' }
  const capturedAt = '2026-03-14T09:26:53.589Z'
  const events: { readonly [Type in EventType]?: EventData<Type> } = {
    'support.ticket_created': { ticketId: 'tic_1', subject: 'Help', status: 'open' },
    'support.ticket_status_changed': { ticketId: 'tic_1', status: 'closed', previousStatus: 'open' },
    'marketing.campaign_created': campaign,
    'marketing.campaign_activated': campaign,
    'marketing.campaign_paused': campaign,
    'marketing.campaign_completed': campaign,
    'marketing.campaign_submitted': { ...campaign, provider: 'meta' },
    'marketing.campaign_failed': { ...campaign, reason: 'rejected' },
    'marketing.lead_captured': {
      captureId: 'cap_1',
      campaignId: 'cmp_1',
      source: 'form',
      businessId: null,
      leadId,
    },
    'marketing.attribution_captured': {
      attributionId: 'att_1',
      campaignId: 'cmp_1',
      leadId: null,
      source: 'newsletter',
      medium: 'email',
      capturedAt,
    },
    'marketing.provider_sync_completed': {
      syncId: 'syn_1',
      provider: 'meta',
      startedAt: capturedAt,
      completedAt: capturedAt,
      records: 17,
    },
  }
  for (const [type, data] of Object.entries(events)) {
    await Reflect.apply(publish, undefined, [ORGANIZATION, type, { ...data, more: 'than the schema says' }])
  }
}

/** Uses the verifier for subscribers that comes with this library. */
function verify({ headers, body }: Received, secret: string): EventEnvelope<string, object> {
  verifyWebhook(body, headers['x-service-signature'], secret)
  const event: EventEnvelope<string, object> = JSON.parse(body)
  assert.equal(headers['x-service-event-id'], event.id)
  assert.equal(headers['x-service-event-type'], event.type)
  assert.deepEqual(Object.keys(event), ['id', 'type', 'createdAt', 'data'])
  return event
}

function assertData(type: string, data: object): void {
  const schema: v.GenericSchema | undefined = Reflect.get(eventSchemas, type)
  assert.ok(schema)
  const checked = v.safeParse(schema, data)
  assert.deepEqual(checked.issues, undefined, type)
  // Fields that aren't in the schema are left out of the output.
  assert.deepEqual(checked.output, data, type)
}
