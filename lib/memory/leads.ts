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
import type { RecordRow } from '../resources/records.ts'
import type { Change } from '../writes/change.ts'
import { applyChange, type Decision } from './change.ts'
import { clientOf, showClient } from './clients.ts'
import { commit, draft, judgeCreation, storeOnce } from './creation.ts'
import { isOneOf, isValue } from './record-list.ts'
import { readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'

const records = ({ records: { lead } }: Organization) => lead

/** Creates the in-memory slice for leads. */
export function createLeadStore(memory: Memory): LeadStore {
  return {
    ...readSlice(memory, {
      records,
      shown,
      stored: (lead) => lead,
      isWanted: (lead, { stages, businessId }: LeadFilter) =>
        isOneOf(stages, lead.stage) && isValue(businessId, lead.businessId),
    }),

    async create(creation) {
      const lead = draft(memory, creation)
      const { organization, record } = lead
      const judged = judgeCreation(lead)
      if (judged) return judged
      if (!organization.records.business.has(record.businessId)) return { outcome: 'no_business' }
      return commit(lead, () => storeOnce(organization.records.lead, record.id, record))
    },

    async change(change) {
      return applyChange(memory, change, {
        records,
        stateOf: ({ stage }) => stage,
        represent: shown,
        decide(stored) {
          const lead = { ...stored, ...change.set }
          return {
            record: lead,
            events: lead.stage === stored.stage ? [] : change.events,
            facts: { businessId: stored.businessId, previousStage: stored.stage },
          }
        },
      })
    },

    async convert(change) {
      return applyChange<LeadRow, ConvertedLead>(memory, change, {
        records,
        stateOf: ({ stage }) => stage,
        represent: (lead, organization) => ({
          lead: shown(lead),
          client: showClient(clientFor(lead, organization, change.set), organization),
        }),
        decide: (stored, organization) => convert(stored, organization, change),
      })
    },
  }
}

const shown = (lead: LeadRow): Lead => shownFields(leadTable, lead)

function convert(
  stored: LeadRow,
  organization: Organization,
  { set, events }: Change<Conversion>,
): Decision<LeadRow, ConvertedLead, never> {
  const { businessId } = stored
  const lead = { ...stored, stage: set.stage }
  const known = clientOf(organization, businessId)
  const client = clientFor(stored, organization, set)
  return {
    record: lead,
    also: () => storeOnce(organization.records.client, client.id, client),
    events: [...(lead.stage === stored.stage ? [] : events), ...(known ? [] : set.clientEvents)],
    facts: { businessId, previousStage: stored.stage },
  }
}

/** Returns the client for a lead's business, or a new client if there isn't one yet. */
function clientFor(
  { businessId }: LeadRow,
  organization: Organization,
  { client }: Conversion,
): RecordRow<'client'> {
  return clientOf(organization, businessId) ?? { ...client, businessId }
}
