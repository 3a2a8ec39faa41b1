import { minorUnits } from '../resources/currencies.ts'
import { isAsFineAs } from '../resources/money.ts'
import type {
  Proposal,
  ProposalChanges,
  ProposalRecord,
  ProposalStore,
  StoredProposal,
} from '../resources/proposals.ts'
import { admitToPage } from './admission.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeKey, refuseOddNumbers, storeOnce } from './creation.ts'
import { numberOf } from './document-numbers.ts'
import { getRecord, isOneOf, isValue, listRecords, withUpdatedAt } from './record-list.ts'
import type { Memory, Organization, StoredProposalRecord } from './state.ts'

/** Creates the slice of proposals in memory. */
export function createProposalStore(memory: Memory): ProposalStore {
  return {
    async admitAndList(request, asked) {
      return admitToPage(memory, request, asked, ({ proposals }) => proposals, proposalRepresentation)
    },

    async create(creation) {
      const proposal = draft(memory, creation, ({ id }) => id)
      const { organization, record } = proposal
      const judged = judgeKey(proposal)
      if (judged) return judged
      const number = numberOf(organization, organization.proposals, record)
      const write = (): void =>
        storeOnce(organization.proposals, record.id, withDecimals({ ...record, number }))
      return { ...commit(proposal, write, { number }), number }
    },

    async change(change) {
      refuseOddNumbers(change.set)
      return applyChange<StoredProposalRecord, Proposal, 'too_fine'>(memory, change, {
        find: ({ proposals }) => proposals.get(change.recordId),
        stateOf: ({ status }) => status,
        represent: proposalRepresentation,
        decide(proposal, organization) {
          const next = changed(proposal, change.set)
          if (!isFineEnough(next)) return { refused: 'too_fine' }
          const write = (): void => store(organization, next, change.set)
          return { representation: proposalRepresentation(next), write, events: change.events }
        },
      })
    },

    async list(organizationId, { statuses, number }, limit, before) {
      const organization = memory.organization(organizationId)
      return listRecords([...organization.proposals.values()].map(toStored(organization)), {
        limit,
        before,
        isWanted: (proposal) => isOneOf(statuses, proposal.status) && isValue(number, proposal.number),
      })
    },

    async get(organizationId, id) {
      const organization = memory.organization(organizationId)
      const stored = organization.proposals.get(id)
      return getRecord(stored && toStored(organization)(stored))
    },
  }
}

function toStored({ proposals, signatures }: Organization): (record: StoredProposalRecord) => StoredProposal {
  const represent = withUpdatedAt(proposals)
  return (record) =>
    represent({ ...proposalRepresentation(record), signature: signatures.get(record.id) ?? null })
}

function withDecimals({
  minorUnits: given,
  ...proposal
}: ProposalRecord & { readonly number: string }): StoredProposalRecord {
  return { ...proposal, decimals: given ?? minorUnits(proposal.currency) }
}

function proposalRepresentation({ decimals: _, ...proposal }: StoredProposalRecord): Proposal {
  return proposal
}

function changed(
  stored: StoredProposalRecord,
  { isRevision = false, signature: _, minorUnits: given, ...changes }: ProposalChanges,
): StoredProposalRecord {
  const decimals = changes.currency === undefined ? stored.decimals : (given ?? minorUnits(changes.currency))
  return { ...stored, ...changes, decimals, version: stored.version + (isRevision ? 1 : 0) }
}

function isFineEnough({ total, monthlyTotal, decimals }: StoredProposalRecord): boolean {
  return isAsFineAs(total, decimals) && isAsFineAs(monthlyTotal, decimals)
}

function store(
  { proposals, signatures }: Organization,
  record: StoredProposalRecord,
  { isRevision, signature }: ProposalChanges,
): void {
  proposals.set(record.id, record)
  if (isRevision) signatures.delete(record.id)
  if (signature) signatures.set(record.id, signature)
}
