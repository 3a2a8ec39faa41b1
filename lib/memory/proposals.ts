import type { ProposalStore } from '../proposals.ts'
import { admitToPage } from './admission.ts'
import { commit, draft, judgeKey, keepOnce, refuseTakenNumber } from './creation.ts'
import type { Memory } from './memory.ts'

/** Proposals in memory. */
export function createProposalStore(memory: Memory): ProposalStore {
  return {
    async list(request, limit) {
      return admitToPage(memory, request, limit, (organization) => organization.proposals)
    },

    async create(creation) {
      const proposal = draft(memory, creation, ({ id }) => id)
      const { organization, record } = proposal
      return (
        judgeKey(proposal) ??
        commit(proposal, () => {
          refuseTakenNumber(organization.proposals, record)
          keepOnce(organization.proposals, record.id, record)
        })
      )
    },
  }
}
