import {
  Api,
  type ClientCreatedEvent,
  type InvoicePaidEvent,
} from '../generated/swagger-typescript-api/api.ts'
import { IDEMPOTENCY_KEY, type Integration, NEW_CLIENT, NEW_ROOM, SHORT_NAME } from './_integration.ts'

export function describe(event: ClientCreatedEvent | InvoicePaidEvent): string {
  return event.type === 'invoice.paid' ? event.data.number : event.data.client.business.name
}

export async function integrate(baseUrl: string, key: string): Promise<Integration> {
  const { api } = new Api({ baseUrl, baseApiParams: { headers: { Authorization: `Bearer ${key}` } } })
  const create = async () => {
    const { data } = await api.createClient(NEW_CLIENT, { headers: { 'Idempotency-Key': IDEMPOTENCY_KEY } })
    return data.data
  }
  const client = await create()
  const again = await create()
  const lead = await api.createLead({ businessId: client.business.id })
  const refused = await api.createClient(SHORT_NAME).catch((answer) => answer)
  const query = { limit: 200 }
  const lists = await Promise.all([
    api.listClients(query),
    api.listLeads(query),
    api.listInvoices(query),
    api.listProposals(query),
    api.listProjects(query),
  ])
  const room = await api.createRoom(NEW_ROOM)
  const found = await api.getRoom(room.data.data.id)
  return {
    clientName: client.business.name,
    isSameClient: client.id === again.id,
    leadStage: lead.data.data.stage,
    listed: lists.map(({ data }) => data.data.length),
    room: found.data.data.name,
    refusal: refused.error.error,
  }
}
