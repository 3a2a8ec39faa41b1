import { digestApiKey } from '../../lib/access/api-keys.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createPlatform } from '../../lib/platform.ts'
import type { DeveloperSettings } from '../../lib/settings.ts'
import { claim, publish, record } from '../settings/_stores.ts'

/** A typical organization after a while: every state of a key, of an endpoint and of a delivery. */
export interface Seeded {
  readonly activeKey: string
  readonly expiringKey: string
  readonly revokedKey: string
  readonly endpoint: string
  readonly failingEndpoint: string
  readonly disabledEndpoint: string
  readonly pausedEndpoint: string
  readonly failedDelivery: string
  readonly pendingDelivery: string
  readonly deliveredDelivery: string
  /** Delivered to one endpoint, and not to the others. */
  readonly event: string
  /** In the log of API requests, with an error. */
  readonly request: string
}

/** Texts of the organization, of the events and of the subscribers. */
export interface SeedTexts {
  readonly name?: string
  readonly excerpt?: string
  readonly url?: string
  readonly body?: string
}

const DAY_MS = 24 * 60 * 60 * 1000

/** @param texts put into every field that takes text of the organization or of a subscriber */
export async function seed(
  store: BusinessApiStore,
  { apiKeys, endpoints, deliveries }: DeveloperSettings,
  organizationId: string,
  texts: SeedTexts = {},
): Promise<Seeded> {
  const actor = texts.name ?? 'ada@example.com'
  const name = (own: string): string => texts.name ?? own
  const url = (path: string): string => texts.url ?? `https://hooks.example.com/${path}`
  const revoked = await apiKeys.create(organizationId, {
    name: name('Old website'),
    scopes: ['clients:read'],
    actor,
  })
  await apiKeys.revoke(organizationId, revoked.id, { actor: 'grace@example.com' })
  const expiring = await apiKeys.create(organizationId, {
    name: name('Nightly export'),
    scopes: ['invoices:read', 'proposals:read'],
    expiresAt: new Date(Date.now() + 3 * DAY_MS),
    actor,
  })
  const active = await apiKeys.create(organizationId, {
    name: name('Website'),
    scopes: ['clients:read', 'clients:write', 'leads:write'],
    actor,
  })
  await store.apiKeys.markUsed(organizationId, active.id)

  // Before the endpoints, so that a backfill has something to send.
  await createPlatform(store).clients.create(organizationId, { name: 'Atlas' })
  const register = (
    description: string,
    path: string,
    types: ['client.created', 'invoice.paid'] | null = null,
  ) => endpoints.register(organizationId, { url: url(path), description: name(description), types, actor })
  const works = await register('Billing', 'billing', ['client.created', 'invoice.paid'])
  const fails = await register('Warehouse', 'warehouse')
  const disabled = await register('Old CRM', 'crm')
  const paused = await register('Staging', 'staging')
  await endpoints.disable(organizationId, disabled.id, { actor: 'grace@example.com' })
  await endpoints.pause(organizationId, paused.id, { actor })
  for (const type of ['client.created', 'invoice.paid', 'client.created', 'invoice.paid']) {
    await publish(store, organizationId, type, texts.body)
  }
  const claimed = await claim(store, organizationId)
  const excerpt = texts.excerpt ?? '{"error":"The queue is full"}'
  await record(
    store,
    claimed.filter(({ endpointId }) => endpointId === works.id),
    'delivered',
    { bodyExcerpt: excerpt },
  )
  const [given, ...others] = claimed.filter(({ endpointId }) => endpointId === fails.id)
  await record(store, given ? [given] : [], 'failed', {
    status: 503,
    reason: 'http_503',
    bodyExcerpt: excerpt,
  })
  await record(store, others, 'retry', { status: null, error: 'connection_refused', bodyExcerpt: excerpt })
  const { data } = await deliveries.list(organizationId)
  const request = 'req_01K8V3ZK7Q9WJ2P4T6R8M0N1C3'
  const logged = { at: new Date().toISOString(), keyDigest: digestApiKey(active.key), organizationId: null }
  const call = { method: 'GET', route: '/clients', path: '/api/v1/clients', durationMs: 3.2, isReplay: false }
  await store.requests.write([
    { ...logged, ...call, id: 'req_01K8V3ZK7Q9WJ2P4T6R8M0N1C2', status: 200, error: null },
    {
      ...logged,
      ...call,
      id: request,
      method: 'POST',
      path: texts.name === undefined ? call.path : `/${texts.name}`,
      status: 422,
      error: texts.excerpt ?? 'Cannot create client because email is invalid',
      isReplay: true,
    },
  ])
  const first = (state: string, endpointId: string): string =>
    data.find((delivery) => delivery.state === state && delivery.endpointId === endpointId)?.id ?? 'missing'
  return {
    activeKey: active.id,
    expiringKey: expiring.id,
    revokedKey: revoked.id,
    endpoint: works.id,
    failingEndpoint: fails.id,
    disabledEndpoint: disabled.id,
    pausedEndpoint: paused.id,
    failedDelivery: first('failed', fails.id),
    pendingDelivery: first('pending', fails.id),
    deliveredDelivery: first('delivered', works.id),
    event: data.find(({ id }) => id === first('delivered', works.id))?.eventId ?? 'missing',
    request,
  }
}

/** Every screen that a GET shows. */
export function screensOf(seeded: Seeded): readonly string[] {
  const { activeKey, revokedKey, endpoint, failingEndpoint, disabledEndpoint, pausedEndpoint } = seeded
  const { failedDelivery, pendingDelivery, deliveredDelivery, event, request } = seeded
  return [
    '/',
    '/?activity=30d',
    '/keys',
    '/keys?show=all',
    '/keys/new',
    `/keys/${activeKey}`,
    `/keys/${revokedKey}`,
    `/keys/${activeKey}/edit`,
    `/keys/${activeKey}/rotate`,
    `/keys/${activeKey}/revoke`,
    '/endpoints',
    '/endpoints/new',
    ...[endpoint, failingEndpoint, disabledEndpoint, pausedEndpoint].map((id) => `/endpoints/${id}`),
    `/endpoints/${failingEndpoint}?state=failed&activity=7d`,
    `/endpoints/${endpoint}/edit`,
    `/endpoints/${endpoint}/backfill`,
    `/endpoints/${endpoint}/rotate`,
    `/endpoints/${endpoint}/disable`,
    `/endpoints/${endpoint}/delete`,
    '/events',
    '/events?type=client.created&record=cli_1&period=custom',
    `/events/${event}`,
    '/requests',
    '/requests?status=4xx',
    `/requests?id=${request}`,
    '/deliveries',
    '/deliveries?state=failed&period=custom',
    '/deliveries/recover',
    ...[failedDelivery, pendingDelivery, deliveredDelivery].map((id) => `/deliveries/${id}`),
    `/deliveries/${pendingDelivery}/cancel`,
    '/audit',
    '/audit?action=endpoint.disabled&period=custom',
    `/audit?subject=${endpoint}`,
    '/reference',
    '/reference/webhooks',
    '/reference/createClient',
    '/reference/onInvoicePaid',
  ]
}
