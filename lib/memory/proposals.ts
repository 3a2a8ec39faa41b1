import { shownFields } from '../resources/columns.ts'
import { minorUnits } from '../resources/currencies.ts'
import { isAsFineAs } from '../resources/money.ts'
import {
  type Proposal,
  type ProposalChanges,
  type ProposalFilter,
  type ProposalRow,
  type ProposalStore,
  proposalTable,
  type StoredProposal,
} from '../resources/proposals.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeKey, storeOnce } from './creation.ts'
import { numberOf } from './document-numbers.ts'
import { isOneOf, isValue } from './record-list.ts'
import { readSlice } from './record-slice.ts'
import type { Memory } from './state.ts'

/** Creates the in-memory slice for proposals. */
export function createProposalStore(memory: Memory): ProposalStore {
  return {
    ...readSlice(memory, {
      records: ({ records }) => records.proposal,
      shown,
      stored,
      isWanted: (proposal, { statuses, number }: ProposalFilter) =>
        isOneOf(statuses, proposal.status) && isValue(number, proposal.number),
    }),

    async create(creation) {
      const proposal = draft(memory, creation)
      const { organization, record } = proposal
      const judged = judgeKey(proposal)
      if (judged) return judged
      const number = numberOf(organization, organization.records.proposal, record)
      const decimals = record.minorUnits ?? minorUnits(record.currency)
      const row = { ...record, number, minorUnits: decimals, signedBy: null, signedAt: null }
      const write = (): void => storeOnce(organization.records.proposal, row.id, row)
      return { ...commit(proposal, write, { number }), number }
    },

    async change(change) {
      return applyChange<ProposalRow, Proposal, 'too_fine'>(memory, change, {
        records: ({ records }) => records.proposal,
        stateOf: ({ status }) => status,
        represent: shown,
        decide(proposal) {
          const record = changed(proposal, change.set)
          return isFineEnough(record) ? { record } : { refused: 'too_fine' }
        },
      })
    },
  }
}

const shown = (proposal: ProposalRow): Proposal => shownFields(proposalTable, proposal)

function stored(row: ProposalRow): Omit<StoredProposal, 'updatedAt'> {
  const { signedBy, signedAt } = row
  const signature = signedBy === null || signedAt === null ? null : { signedBy, signedAt }
  return { ...shown(row), signature }
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
