import type { z } from 'zod'
import { createApiClient, schemas } from '../generated/openapi-zod-client.ts'
import { IDEMPOTENCY_KEY, type Integration, NEW_CLIENT, NEW_ROOM, SHORT_NAME } from './_integration.ts'

type Event = z.infer<typeof schemas.ClientCreatedEvent> | z.infer<typeof schemas.InvoicePaidEvent>

/** The generator ignores `const`, so `type` can be any string. */
export function describe({ type, data }: Event): string {
  return type === 'invoice.paid'
    ? schemas.InvoicePaidEventData.parse(data).number
    : schemas.ClientCreatedEventData.parse(data).client.business.name
}

/** Validates all responses with the generated schemas. */
export async function integrate(baseUrl: string, key: string): Promise<Integration> {
  const api = createApiClient(baseUrl, { axiosConfig: { headers: { Authorization: `Bearer ${key}` } } })
  const create = async () => {
    const { data } = await api.post('/api/v1/clients', NEW_CLIENT, {
      headers: { 'Idempotency-Key': IDEMPOTENCY_KEY },
    })
    return data
  }
  const client = await create()
  const again = await create()
  const lead = await api.post('/api/v1/leads', { businessId: client.business.id })
  const refused = await fetch(`${baseUrl}/api/v1/clients`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(SHORT_NAME),
  })
  const queries = { limit: 200 }
  const lists = await Promise.all([
    api.get('/api/v1/clients', { queries }),
    api.get('/api/v1/leads', { queries }),
    api.get('/api/v1/invoices', { queries }),
    api.get('/api/v1/proposals', { queries }),
    api.get('/api/v1/projects', { queries }),
  ])
  const room = await api.post('/api/v1/rooms', NEW_ROOM)
  const found = await api.get('/api/v1/rooms/:roomId', { params: { roomId: room.data.id } })
  return {
    clientName: client.business.name,
    isSameClient: client.id === again.id,
    leadStage: lead.data.stage,
    listed: lists.map(({ data }) => data.length),
    room: found.data.name,
    // The client rejects invalid input itself, so we have to call the server without it.
    refusal: schemas.ErrorResponse.parse(await refused.json()).error,
  }
}
