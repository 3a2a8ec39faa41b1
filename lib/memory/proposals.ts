import { shownFields } from '../resources/columns.ts'
import { minorUnits } from '../resources/currencies.ts'
import { isAsFineAs } from '../resources/money.ts'
import {
  type Proposal,
  type ProposalChanges,
  type ProposalRow,
  type ProposalStore,
  proposalTable,
  type StoredProposal,
} from '../resources/proposals.ts'
import { admitToPage } from './admission.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeKey, refuseOddNumbers, storeOnce } from './creation.ts'
import { numberOf } from './document-numbers.ts'
import { getRecord, isOneOf, isValue, listRecords, withUpdatedAt } from './record-list.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the slice of proposals in memory. */
export function createProposalStore(memory: Memory): ProposalStore {
  return {
    async admitAndList(request, asked) {
      return admitToPage(memory, request, asked, ({ proposals }) => proposals, shown)
    },

    async create(creation) {
      const proposal = draft(memory, creation, ({ id }) => id)
      const { organization, record } = proposal
      const judged = judgeKey(proposal)
      if (judged) return judged
      const number = numberOf(organization, organization.proposals, record)
      const decimals = record.minorUnits ?? minorUnits(record.currency)
      const row = { ...record, number, minorUnits: decimals, signedBy: null, signedAt: null }
      const write = (): void => storeOnce(organization.proposals, row.id, row)
      return { ...commit(proposal, write, { number }), number }
    },

    async change(change) {
      refuseOddNumbers(change.set)
      return applyChange<ProposalRow, Proposal, 'too_fine'>(memory, change, {
        find: ({ proposals }) => proposals.get(change.recordId),
        stateOf: ({ status }) => status,
        represent: shown,
        decide(proposal, { proposals }) {
          const next = changed(proposal, change.set)
          if (!isFineEnough(next)) return { refused: 'too_fine' }
          return {
            representation: shown(next),
            write: () => proposals.set(next.id, next),
            events: change.events,
          }
        },
      })
    },

    async list(organizationId, { statuses, number }, limit, before) {
      const { proposals } = memory.organization(organizationId)
      return listRecords([...proposals.values()].map(toStored(proposals)), {
        limit,
        before,
        isWanted: (proposal) => isOneOf(statuses, proposal.status) && isValue(number, proposal.number),
      })
    },

    async get(organizationId, id) {
      const { proposals } = memory.organization(organizationId)
      const stored = proposals.get(id)
      return getRecord(stored && toStored(proposals)(stored))
    },
  }
}

/** The proposal as the API shows it. */
const shown = (proposal: ProposalRow): Proposal => shownFields(proposalTable, proposal)

function toStored(proposals: Organization['proposals']): (row: ProposalRow) => StoredProposal {
  const represent = withUpdatedAt(proposals)
  return (row) => {
    const { signedBy, signedAt } = row
    const signature = signedBy === null || signedAt === null ? null : { signedBy, signedAt }
    return represent({ ...shown(row), signature })
  }
}

function changed(
  stored: ProposalRow,
  { isRevision = false, signature, minorUnits: given, ...changes }: ProposalChanges,
): ProposalRow {
  return {
    ...stored,
    ...changes,
    ...(changes.currency !== undefined && { minorUnits: given ?? minorUnits(changes.currency) }),
    ...(isRevision && { version: stored.version + 1, signedBy: null, signedAt: null }),
    ...signature,
  }
}

function isFineEnough({ total, monthlyTotal, minorUnits: decimals }: ProposalRow): boolean {
  return isAsFineAs(total, decimals) && isAsFineAs(monthlyTotal, decimals)
}
