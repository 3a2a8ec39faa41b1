import { createClient as createFetchClient } from '../generated/hey-api/client/index.ts'
import {
  type ClientCreatedEvent,
  createClient,
  createLead,
  createRoom,
  getRoom,
  type InvoicePaidEvent,
  listClients,
  listInvoices,
  listLeads,
  listProjects,
  listProposals,
} from '../generated/hey-api/index.ts'
import { IDEMPOTENCY_KEY, type Integration, NEW_CLIENT, NEW_ROOM, SHORT_NAME } from './_integration.ts'

export function describe(event: ClientCreatedEvent | InvoicePaidEvent): string {
  return event.type === 'invoice.paid' ? event.data.number : event.data.client.business.name
}

export async function integrate(baseUrl: string, key: string): Promise<Integration> {
  const client = createFetchClient({ baseUrl, auth: key })
  const create = async () => {
    const headers = { 'Idempotency-Key': IDEMPOTENCY_KEY }
    const { data } = await createClient({ client, headers, body: NEW_CLIENT, throwOnError: true })
    return data.data
  }
  const created = await create()
  const again = await create()
  const body = { businessId: created.business.id }
  const lead = await createLead({ client, body, throwOnError: true })
  const refused = await createClient({ client, body: SHORT_NAME })
  const options = { client, query: { limit: 200 }, throwOnError: true } as const
  const lists = await Promise.all([
    listClients(options),
    listLeads(options),
    listInvoices(options),
    listProposals(options),
    listProjects(options),
  ])
  const room = await createRoom({ client, body: NEW_ROOM, throwOnError: true })
  const path = { roomId: room.data.data.id }
  const found = await getRoom({ client, path, throwOnError: true })
  return {
    clientName: created.business.name,
    isSameClient: created.id === again.id,
    leadStage: lead.data.data.stage,
    listed: lists.map(({ data }) => data.data.length),
    room: found.data.data.name,
    refusal: refused.error?.error ?? '',
  }
}
