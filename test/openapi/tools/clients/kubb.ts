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
} from '../generated/kubb/index.ts'
import { IDEMPOTENCY_KEY, type Integration, NEW_CLIENT, NEW_ROOM, SHORT_NAME } from './_integration.ts'

export function describe(event: ClientCreatedEvent | InvoicePaidEvent): string {
  return event.type === 'invoice.paid' ? event.data.number : event.data.client.business.name
}

/** Uses the server URL from the document. */
export async function integrate(_baseUrl: string, key: string): Promise<Integration> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
  const create = () => createClient(NEW_CLIENT, { 'Idempotency-Key': IDEMPOTENCY_KEY }, { headers })
  const client = await create()
  const again = await create()
  const lead = await createLead({ businessId: client.data.business.id }, undefined, { headers })
  // Kubb's client returns the body of an error as if it were a success.
  const refused: object = await createClient(SHORT_NAME, undefined, { headers })
  const query = { limit: 200 }
  const lists = await Promise.all([
    listClients(query, { headers }),
    listLeads(query, { headers }),
    listInvoices(query, { headers }),
    listProposals(query, { headers }),
    listProjects(query, { headers }),
  ])
  const room = await createRoom(NEW_ROOM, { headers })
  const found = await getRoom(room.data.id, { headers })
  return {
    clientName: client.data.business.name,
    isSameClient: client.data.id === again.data.id,
    leadStage: lead.data.stage,
    listed: lists.map(({ data }) => data.length),
    room: found.data.name,
    refusal: 'error' in refused ? String(refused.error) : '',
  }
}
