import * as v from 'valibot'
import * as field from '../base/fields.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, NumberedOutcome } from '../writes/creation.ts'
import { eventType } from '../writes/event-envelope.ts'
import { FORGOTTEN_NAME, type RecordTable } from './columns.ts'
import type { NewNumber } from './document-numbers.ts'
import type { ListedReads, StatusFilter, Updated } from './record-reads.ts'
import type { Operations } from './route.ts'

// --- Schemas (section 2 of the spec) ---

/** A proposal, as returned by the API. */
export const ProposalSchema = v.object({
  id: field.id('prop', 'ID of the proposal.'),
  number: field.prose(64, 'Proposal number, unique in the organization.', 'PROP-2026-0007'),
  title: field.prose(200, 'Title of the proposal.', 'Website and hosting'),
  status: field.word('Status of the proposal.', 'sent', 'draft', 'accepted', 'rejected'),
  version: field.count(1, 'Version of the proposal, starting at 1. Each revision adds 1.', 1),
  total: field.amount('One-time price.', 4800),
  monthlyTotal: field.amount('Monthly price.', 150),
  currency: field.currency(),
})

// --- Types ---

/** A proposal. `version` starts at 1 and goes up with each revision. Totals have up to three decimal places. */
export type Proposal = v.InferOutput<typeof ProposalSchema>

/** A proposal to create. If `number` is a series, the store assigns the number. */
export type ProposalRecord = Omit<Proposal, 'number'> & {
  readonly number: NewNumber
  /** The currency's number of decimal places. Defaults to the ISO 4217 value. */
  readonly minorUnits?: number
}

/** The proposal fields that can be changed. */
export interface ProposalChanges
  extends Partial<Pick<Proposal, 'status' | 'title' | 'total' | 'monthlyTotal' | 'currency'>> {
  /** The currency's number of decimal places. Only used together with `currency`. */
  readonly minorUnits?: number
  /** If `true`, the change is a revision, which increments the version and removes the signature. */
  readonly isRevision?: boolean
  /** An accepted proposal's signature. */
  readonly signature?: ProposalSignature
}

/** Who signed a proposal and when (ISO 8601, UTC, with milliseconds). */
export interface ProposalSignature {
  readonly signedBy: string
  readonly signedAt: string
}

/** A proposal as returned to the host, including the signature. */
export interface StoredProposal extends Proposal, Updated {
  /** `null` until the client signs. A revision removes the signature. */
  readonly signature: ProposalSignature | null
}

// --- Columns ---

/** A proposal, including the fields that the API doesn't return. */
export interface ProposalRow extends Proposal {
  readonly minorUnits: number
  readonly signedBy: string | null
  readonly signedAt: string | null
}

/** The proposal columns. */
export const proposalTable: RecordTable<ProposalRow> = {
  kind: 'proposal',
  idKind: 'prop',
  table: 'proposals',
  columns: {
    id: {},
    number: {},
    title: { isChangeable: true },
    status: { isChangeable: true },
    version: { type: 'integer' },
    total: { type: 'numeric(15, 3)', isChangeable: true },
    monthlyTotal: { type: 'numeric(15, 3)', isChangeable: true },
    currency: { isChangeable: true },
    minorUnits: { type: 'integer', isChangeable: true, isHidden: true },
    signedBy: { isChangeable: true, isHidden: true, forgotten: FORGOTTEN_NAME },
    signedAt: { type: 'timestamptz', isChangeable: true, isHidden: true },
  },
}

// --- Events (section 6 of the spec) ---

/** Defines a proposal event. All four of them contain the proposal after the change. */
function proposalEvent(status: string, summary: string, description: string) {
  return eventType(summary, description, {
    proposalId: field.id('prop', 'ID of the proposal.'),
    number: field.prose(64, 'Proposal number.', 'PROP-2026-0007'),
    version: field.count(1, 'Version of the proposal.', 1),
    status: field.word('New status of the proposal.', status),
    proposal: ProposalSchema,
  })
}

/** Proposal events by type. */
export const proposalEvents = {
  'proposal.created': proposalEvent(
    'draft',
    'A proposal was created',
    'Sent for new proposals and for new versions of a proposal.',
  ),
  'proposal.sent': proposalEvent(
    'sent',
    'A proposal was sent to the client',
    'The client can now accept or reject this version.',
  ),
  'proposal.accepted': proposalEvent(
    'accepted',
    'A client signed a proposal',
    'Sent when a client signs the proposal, for example to start the work.',
  ),
  'proposal.rejected': proposalEvent(
    'rejected',
    'A client rejected a proposal',
    'A rejected version is final. A revision creates a new version.',
  ),
}

// --- Store ---

/** Filters proposals. Omitted properties match everything. */
export interface ProposalFilter extends StatusFilter {
  /** The proposal's number. Matches at most one proposal. */
  readonly number?: string | undefined
}

/** The part of a store that manages proposals. */
export interface ProposalStore extends ListedReads<Proposal, StoredProposal, ProposalFilter> {
  /**
   * Writes the proposal, the events and the idempotency entry in one transaction, with the given number or series.
   *
   * @throws `BusinessApiError` with code `already_exists` if another of the organization's proposals has the number
   */
  create(creation: Creation<ProposalRecord>): Promise<NumberedOutcome>

  /**
   * Changes a proposal. Rejected with reason `too_fine` if a price has more decimal places than the currency allows.
   */
  change(change: Change<ProposalChanges>): Promise<ChangeOutcome<Proposal, 'too_fine'>>
}

// --- Operations (section 4 of the spec) ---

/** The proposal operations. */
export const proposalOperations: Operations = {
  ...proposalTable,
  about: 'Offers to clients.',
  representation: ProposalSchema,
}
