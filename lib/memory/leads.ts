import type { Client } from '../resources/clients.ts'
import { shownFields } from '../resources/columns.ts'
import {
  type Conversion,
  type ConvertedLead,
  type Lead,
  type LeadFilter,
  type LeadRow,
  type LeadStore,
  leadTable,
} from '../resources/leads.ts'
import type { Change } from '../writes/change.ts'
import { applyChange, type Decision } from './change.ts'
import { ofBusiness, storeClient } from './clients.ts'
import { commit, draft, judgeCreation, refuseOddNumbers, storeOnce } from './creation.ts'
import { isOneOf, isValue } from './record-list.ts'
import { readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the slice of leads in memory. */
export function createLeadStore(memory: Memory): LeadStore {
  return {
    ...readSlice(memory, {
      records: ({ leads }) => leads,
      shown,
      stored: (lead) => lead,
      isWanted: (lead, { stages, businessId }: LeadFilter) =>
        isOneOf(stages, lead.stage) && isValue(businessId, lead.businessId),
    }),

    async create(creation) {
      const lead = draft(memory, creation, ({ id }) => id)
      const { organization, record } = lead
      const judged = judgeCreation(lead)
      if (judged) return judged
      if (!organization.businesses.has(record.businessId)) return { outcome: 'no_business' }
      return commit(lead, () => storeOnce(organization.leads, record.id, record))
    },

    async change(change) {
      refuseOddNumbers(change.set)
      return applyChange(memory, change, {
        find: ({ leads }) => leads.get(change.recordId),
        stateOf: ({ stage }) => stage,
        represent: shown,
        decide(stored, { leads }) {
          const lead = { ...stored, ...change.set }
          return {
            representation: shown(lead),
            write: () => leads.set(lead.id, lead),
            events: lead.stage === stored.stage ? [] : change.events,
            facts: { businessId: stored.businessId, previousStage: stored.stage },
          }
        },
      })
    },

    async convert(change) {
      return applyChange<LeadRow, ConvertedLead>(memory, change, {
        find: ({ leads }) => leads.get(change.recordId),
        stateOf: ({ stage }) => stage,
        represent: (lead, organization) => ({
          lead: shown(lead),
          client:
            clientOf(organization, lead.businessId) ?? newClient(organization, lead.businessId, change.set),
        }),
        decide: (stored, organization) => convert(stored, organization, change),
      })
    },
  }
}

/** The lead as the API shows it. */
const shown = (lead: LeadRow): Lead => shownFields(leadTable, lead)

function convert(
  stored: LeadRow,
  organization: Organization,
  { set, events }: Change<Conversion>,
): Decision<ConvertedLead, never> {
  const { businessId } = stored
  const lead = { ...stored, stage: set.stage }
  const known = clientOf(organization, businessId)
  const client = known ?? newClient(organization, businessId, set)
  return {
    representation: { lead: shown(lead), client },
    write() {
      organization.leads.set(lead.id, lead)
      storeClient(organization, client)
    },
    events: [...(lead.stage === stored.stage ? [] : events), ...(known ? [] : set.clientEvents)],
    facts: { businessId, previousStage: stored.stage },
  }
}

function clientOf({ clients, clientsOfBusinesses }: Organization, businessId: string): Client | undefined {
  return clients.get(clientsOfBusinesses.get(businessId) ?? '')
}

function newClient(organization: Organization, businessId: string, { client }: Conversion): Client {
  return { ...client, business: ofBusiness(organization, businessId) }
}
