import createClient from 'openapi-fetch'
import type { components, paths } from '../generated/openapi-typescript.ts'
import { IDEMPOTENCY_KEY, type Integration, NEW_CLIENT, NEW_ROOM, SHORT_NAME } from './_integration.ts'

type Event = components['schemas']['ClientCreatedEvent'] | components['schemas']['InvoicePaidEvent']

export function describe(event: Event): string {
  return event.type === 'invoice.paid' ? event.data.number : event.data.client.business.name
}

export async function integrate(baseUrl: string, key: string): Promise<Integration> {
  const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } })
  const create = async () => {
    const params = { header: { 'Idempotency-Key': IDEMPOTENCY_KEY } }
    const { data } = await api.POST('/api/v1/clients', { params, body: NEW_CLIENT })
    if (!data) throw new Error('no client')
    return data.data
  }
  const client = await create()
  const again = await create()
  const lead = await api.POST('/api/v1/leads', { body: { businessId: client.business.id } })
  const refused = await api.POST('/api/v1/clients', { body: SHORT_NAME })
  const query = { limit: 200 }
  const lists = await Promise.all([
    api.GET('/api/v1/clients', { params: { query } }),
    api.GET('/api/v1/leads', { params: { query } }),
    api.GET('/api/v1/invoices', { params: { query } }),
    api.GET('/api/v1/proposals', { params: { query } }),
    api.GET('/api/v1/projects', { params: { query } }),
  ])
  const room = await api.POST('/api/v1/rooms', { body: NEW_ROOM })
  const params = { path: { roomId: room.data?.data.id ?? '' } }
  const found = await api.GET('/api/v1/rooms/{roomId}', { params })
  return {
    clientName: client.business.name,
    isSameClient: client.id === again.id,
    leadStage: lead.data?.data.stage ?? '',
    listed: lists.map(({ data }) => data?.data.length ?? -1),
    room: found.data?.data.name ?? '',
    refusal: refused.error?.error ?? '',
  }
}
