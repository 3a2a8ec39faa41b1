import * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage } from './admission.ts'
import type { Change, ChangeOutcome } from './change.ts'
import type { Creation, NumberedOutcome } from './creation.ts'
import * as field from './fields.ts'
import type { NewNumber } from './numbering.ts'
import { listRoute, type Route } from './route.ts'

// --- Schemas (specification, section 2) ---

/** A proposal as the API shows it. */
export const ProposalSchema = v.object({
  id: field.id('prop', 'The proposal.'),
  number: field.prose(64, 'Its number, unique in the organization.', 'PROP-2026-0007'),
  title: field.prose(200, 'What it proposes.', 'Website and hosting'),
  status: field.word('Where it stands.', 'sent', 'draft', 'accepted', 'rejected'),
  version: field.count(1, 'Counts its revisions from 1.', 2),
  total: field.amount('One-time price.', 4800),
  monthlyTotal: field.amount('Price of a month.', 150),
  currency: field.currency(),
})

// --- Types ---

/** A proposal. `version` counts its revisions from 1; totals are numbers with at most three decimals. */
export type Proposal = v.InferOutput<typeof ProposalSchema>

/** A proposal to be created; the store finds a number of a series. */
export type NewProposal = Omit<Proposal, 'number'> & {
  readonly number: NewNumber
  /** Decimals of its currency. Default those of ISO 4217. */
  readonly minorUnits?: number
}

/** What of a proposal can be changed. */
export interface ProposalChanges
  extends Partial<Pick<Proposal, 'status' | 'title' | 'total' | 'monthlyTotal' | 'currency'>> {
  /** Decimals of the currency; with a currency only. */
  readonly minorUnits?: number
  /** Whether it is a revision: the version after the present one, not signed. */
  readonly isRevision?: boolean
  /** Who has signed it, and when. */
  readonly signature?: Signature
}

/** Who has signed, and when: ISO 8601 in UTC with milliseconds. */
export interface Signature {
  readonly signedBy: string
  readonly signedAt: string
}

// --- Events (specification, section 6) ---

/** All four tell of the proposal as it is then. */
function proposalEvent(status: string) {
  return v.object({
    proposalId: field.id('prop', 'The proposal.'),
    number: field.prose(64, 'Its number.', 'PROP-2026-0007'),
    version: field.count(1, 'The revision it happened to.', 2),
    status: field.word('Where it stands now.', status),
    proposal: ProposalSchema,
  })
}

/** The events of proposals. */
export const proposalEvents = {
  'proposal.created': proposalEvent('draft'),
  'proposal.sent': proposalEvent('sent'),
  'proposal.accepted': proposalEvent('accepted'),
  'proposal.rejected': proposalEvent('rejected'),
}

// --- Store ---

/** What a store must do for proposals. */
export interface ProposalStore {
  /** As `ClientStore.list`, for proposals. */
  list(request: AdmissionRequest, limit: number): Promise<AdmittedPage<Proposal>>

  /**
   * Writes the proposal, its events and the idempotency entry at once or not at all, with the next number of its series
   * if it comes with none.
   *
   * @throws `BusinessApiError` with code `already_exists` when another proposal of the organization has its number
   */
  create(creation: Creation<NewProposal>): Promise<NumberedOutcome>

  /** Changes a proposal. Refused with the reason `too_fine` if a price would be finer than its currency. */
  change(change: Change<ProposalChanges>): Promise<ChangeOutcome<Proposal, 'too_fine'>>
}

// --- Routes (specification, section 4) ---

/** The operations on proposals. */
export function proposalRoutes(store: ProposalStore): readonly Route[] {
  return [
    listRoute({
      path: '/api/v1/proposals',
      operationId: 'listProposals',
      tag: 'Proposals',
      scope: 'proposals:read',
      summary: 'List proposals',
      description: 'The newest proposals of the organization, newest first.',
      item: ProposalSchema,
      itemName: 'Proposal',
      list: (request, limit) => store.list(request, limit),
    }),
  ]
}
