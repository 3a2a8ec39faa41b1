import type { Lead, LeadStore } from '../leads.ts'
import { admitToPage } from './admission.ts'
import { commit, draft, judgeKey, keepOnce } from './creation.ts'
import type { Memory, Organization } from './memory.ts'

/** Leads in memory. */
export function createLeadStore(memory: Memory): LeadStore {
  return {
    async list(request, limit) {
      return admitToPage(memory, request, limit, shownLeads)
    },

    async create(creation) {
      const lead = draft(memory, creation, (record) => record.lead.id)
      const { organization, record } = lead
      const judged = judgeKey(lead)
      if (judged) return judged
      if (!organization.businesses.has(record.businessId)) return { outcome: 'no_business' }
      return commit(lead, () => keepOnce(organization.leads, record.lead.id, record))
    },
  }
}

function shownLeads({ leads }: Organization): ReadonlyMap<string, Lead> {
  return new Map([...leads].map(([id, { lead }]) => [id, lead] as const))
}
