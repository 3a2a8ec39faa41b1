import type { Client } from '../resources/clients.ts'
import type { Conversion, ConvertedLead, LeadRecord, LeadStore, StoredLead } from '../resources/leads.ts'
import type { Change } from '../writes/change.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { admitToPage } from './admission.ts'
import { applyChange, type Decision } from './change.ts'
import { storeClient } from './clients.ts'
import { commit, draft, judgeKey, refuseOddNumbers, storeOnce } from './creation.ts'
import { getRecord, isOneOf, isValue, listRecords, withUpdatedAt } from './record-list.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the slice of leads in memory. */
export function createLeadStore(memory: Memory): LeadStore {
  return {
    async admitAndList(request, asked) {
      return admitToPage(
        memory,
        request,
        asked,
        ({ leads }) => leads,
        ({ lead }) => lead,
      )
    },

    async create(creation) {
      const lead = draft(memory, creation, (record) => record.lead.id)
      const { organization, record } = lead
      const judged = judgeKey(lead)
      if (judged) return judged
      if (!organization.businesses.has(record.businessId)) return { outcome: 'no_business' }
      return commit(lead, () => storeOnce(organization.leads, record.lead.id, record))
    },

    async change(change) {
      refuseOddNumbers(change.set)
      return applyChange(memory, change, {
        find: ({ leads }) => leads.get(change.recordId),
        stateOf: ({ lead }) => lead.stage,
        represent: ({ lead }) => lead,
        decide(stored, { leads }) {
          const lead = { ...stored.lead, ...change.set }
          return {
            representation: lead,
            write: () => leads.set(lead.id, { ...stored, lead }),
            events: lead.stage === stored.lead.stage ? [] : change.events,
            facts: { businessId: stored.businessId, previousStage: stored.lead.stage },
          }
        },
      })
    },

    async convert(change) {
      return applyChange<LeadRecord, ConvertedLead>(memory, change, {
        find: ({ leads }) => leads.get(change.recordId),
        stateOf: ({ lead }) => lead.stage,
        represent: ({ lead, businessId }, organization) => ({
          lead,
          client: clientOf(organization, businessId) ?? newClient(organization, businessId, change.set),
        }),
        decide: (stored, organization) => convert(stored, organization, change),
      })
    },

    async list(organizationId, { stages, businessId }, limit, before) {
      const { leads } = memory.organization(organizationId)
      return listRecords([...leads.values()].map(toStored(leads)), {
        limit,
        before,
        isWanted: (lead) => isOneOf(stages, lead.stage) && isValue(businessId, lead.businessId),
      })
    },

    async get(organizationId, id) {
      const { leads } = memory.organization(organizationId)
      const stored = leads.get(id)
      return getRecord(stored && toStored(leads)(stored))
    },
  }
}

function toStored(leads: Organization['leads']): (record: LeadRecord) => StoredLead {
  const represent = withUpdatedAt(leads)
  return ({ lead, businessId }) => represent({ ...lead, businessId })
}

function convert(
  stored: LeadRecord,
  organization: Organization,
  { set, events }: Change<Conversion>,
): Decision<ConvertedLead, never> {
  const { businessId } = stored
  const lead = { ...stored.lead, stage: set.stage }
  const known = clientOf(organization, businessId)
  const client = known ?? newClient(organization, businessId, set)
  const recorded: readonly EventRecord[] = [
    ...(lead.stage === stored.lead.stage ? [] : events),
    ...(known ? [] : set.clientEvents),
  ]
  return {
    representation: { lead, client },
    write() {
      organization.leads.set(lead.id, { ...stored, lead })
      storeClient(organization, client)
    },
    events: recorded,
    facts: { businessId, previousStage: stored.lead.stage },
  }
}

function clientOf({ clients, clientsOfBusinesses }: Organization, businessId: string): Client | undefined {
  return clients.get(clientsOfBusinesses.get(businessId) ?? '')
}

function newClient({ businesses }: Organization, businessId: string, { client }: Conversion): Client {
  const business = businesses.get(businessId)
  if (!business) throw new TypeError('Cannot convert a lead without a business')
  return { ...client, business }
}
