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
} from '../generated/orval.ts'
import { IDEMPOTENCY_KEY, type Integration, NEW_CLIENT, NEW_ROOM, SHORT_NAME } from './_integration.ts'

export function describe(event: ClientCreatedEvent | InvoicePaidEvent): string {
  return event.type === 'invoice.paid' ? event.data.number : event.data.client.business.name
}

/** Uses the server URL from the document. */
export async function integrate(_baseUrl: string, key: string): Promise<Integration> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
  const create = async () => {
    const answer = await createClient(NEW_CLIENT, {
      headers: { ...headers, 'Idempotency-Key': IDEMPOTENCY_KEY },
    })
    if (answer.status !== 200) throw new Error(answer.data.error)
    return answer.data.data
  }
  const client = await create()
  const again = await create()
  const lead = await createLead({ businessId: client.business.id }, { headers })
  const refused = await createClient(SHORT_NAME, { headers })
  const query = { limit: 200 }
  const lists = await Promise.all([
    listClients(query, { headers }),
    listLeads(query, { headers }),
    listInvoices(query, { headers }),
    listProposals(query, { headers }),
    listProjects(query, { headers }),
  ])
  const room = await createRoom(NEW_ROOM, { headers })
  const found = await getRoom(room.status === 200 ? room.data.data.id : '', { headers })
  return {
    clientName: client.business.name,
    isSameClient: client.id === again.id,
    leadStage: lead.status === 200 ? lead.data.data.stage : '',
    listed: lists.map((list) => (list.status === 200 ? list.data.data.length : -1)),
    room: found.status === 200 ? found.data.data.name : '',
    refusal: refused.status === 200 ? '' : refused.data.error,
  }
}
