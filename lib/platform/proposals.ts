import * as v from 'valibot'
import { INVALID_INPUT, refused } from '../base/errors.ts'
import * as field from '../base/fields.ts'
import { IdSchema, MomentSchema, type Optional } from '../base/host-input.ts'
import type { PageQuery } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import { seriesOf } from '../resources/document-numbers.ts'
import { isAsFineAs } from '../resources/money.ts'
import {
  type Proposal,
  type ProposalChanges,
  type ProposalFilter,
  type ProposalRecord,
  proposalEvents,
  type StoredProposal,
} from '../resources/proposals.ts'
import { buildEventTemplate, type EventRecord } from '../writes/event-envelope.ts'
import { WHOLE_RECORD } from '../writes/placeholders.ts'
import { toTimestamp, type WriteContext } from '../writes/write-context.ts'
import {
  type CallOptions,
  type CallTools,
  changed,
  createBuildWrite,
  created,
  numberedRepresentation,
  type Refusal,
  type WriteCall,
} from './calls.ts'
import { CurrencySchema, NumberSchema, TitleSchema } from './inputs.ts'
import { createReads, type Reads, StatesSchema } from './reads.ts'

// --- Types ---

/** A new proposal. */
export interface NewProposal extends CallOptions {
  /** 1 to 200 characters. */
  readonly title: string
  /** ISO 4217 code. */
  readonly currency: string
  /** One-time price, with up to three decimal places but no more than the currency has. */
  readonly total: number
  /** Monthly price. Has the same limits as `total`. Defaults to 0. */
  readonly monthlyTotal?: number | undefined
  /** 1 to 64 characters, unique per organization. Defaults to the year's next number, such as `PROP-2026-0007`. */
  readonly number?: string | undefined
}

/** Identifies a proposal. */
export interface ProposalRef extends CallOptions {
  readonly proposalId: string
}

/** Changes to make in a proposal's new version. Missing properties stay unchanged. */
export interface ProposalRevision
  extends ProposalRef,
    Optional<Omit<NewProposal, keyof CallOptions | 'number'>> {}

/** A proposal's signature. */
export interface ProposalAcceptance extends ProposalRef {
  /** The signatory's name, 1 to 200 characters. */
  readonly signedBy: string
  /** A `Date` or ISO 8601 with a time zone. Defaults to now. */
  readonly signedAt?: Date | string | undefined
}

/** Filtering and paging options for proposals. Missing properties match everything. */
export interface ProposalQuery extends PageQuery, ProposalFilter {}

/**
 * Proposal calls. Calls that take a proposal id throw `not_found` if the organization has no such proposal, and
 * `invalid_state` if the proposal's status doesn't allow the call. Any call throws `invalid_input` if a price has more
 * decimal places than the currency.
 */
export interface ProposalCalls extends Reads<StoredProposal, ProposalQuery> {
  /**
   * Creates a draft, version 1. Publishes `proposal.created`.
   *
   * @throws `BusinessApiError` with code `already_exists` if another proposal has the same number
   */
  create(organizationId: string, proposal: NewProposal): Promise<Proposal>
  /** Draft, sent or rejected → draft of the next version, unsigned. Doesn't publish anything. */
  revise(organizationId: string, revision: ProposalRevision): Promise<Proposal>
  /** Draft → sent. Publishes `proposal.sent`. */
  send(organizationId: string, proposal: ProposalRef): Promise<Proposal>
  /** Sent → accepted, which is final (see section 6 of the spec, rule 3). Publishes `proposal.accepted`. */
  accept(organizationId: string, acceptance: ProposalAcceptance): Promise<Proposal>
  /** Sent → rejected. Publishes `proposal.rejected`. */
  reject(organizationId: string, proposal: ProposalRef): Promise<Proposal>
}

// --- Transitions (see the decisions on section 3 of the spec) ---

const TRANSITIONS = {
  revise: { from: ['draft', 'sent', 'rejected'], to: 'draft', event: null },
  send: { from: ['draft'], to: 'sent', event: 'proposal.sent' },
  accept: { from: ['sent'], to: 'accepted', event: 'proposal.accepted' },
  reject: { from: ['sent'], to: 'rejected', event: 'proposal.rejected' },
} as const

// --- Inputs ---

const CREATE_FIELDS = {
  title: TitleSchema,
  currency: CurrencySchema,
  total: field.decimal(0),
  monthlyTotal: v.optional(field.decimal(0), 0),
  number: v.exactOptional(NumberSchema),
}
const REF_FIELDS = { proposalId: IdSchema }
const REVISE_FIELDS = {
  proposalId: IdSchema,
  title: v.exactOptional(TitleSchema),
  currency: v.exactOptional(CurrencySchema),
  total: v.exactOptional(field.decimal(0)),
  monthlyTotal: v.exactOptional(field.decimal(0)),
}
const ACCEPT_FIELDS = {
  proposalId: IdSchema,
  signedBy: TitleSchema,
  signedAt: v.exactOptional(MomentSchema),
}
const FILTER = { statuses: v.exactOptional(StatesSchema), number: v.exactOptional(NumberSchema) }

// --- Calls ---

/** Creates the proposal calls. */
export function createProposalCalls(store: Pick<RecordStore, 'proposals'>, tools: CallTools): ProposalCalls {
  const { minorUnits } = tools
  const build = createBuildWrite(tools)

  async function change(
    call: WriteCall<{ readonly proposalId: string }>,
    name: keyof typeof TRANSITIONS,
    changes: Omit<ProposalChanges, 'status'> = {},
  ): Promise<Proposal> {
    const { from, to, event } = TRANSITIONS[name]
    const { proposalId: recordId } = call.input
    const events = event === null ? [] : [proposalEvent(event, recordId, call.context)]
    const parts = { recordId, from, set: { ...changes, status: to }, events }
    return changed(call, parts, (given) => store.proposals.change(given), { too_fine: TOO_FINE })
  }

  return {
    ...createReads(['proposal', 'proposals'], FILTER, () => store.proposals),
    create: build('proposals.create', 'Cannot create the proposal', CREATE_FIELDS, async (call) => {
      const { title, currency, total, monthlyTotal, number } = call.input
      const decimals = minorUnits(currency)
      if (!isAsFineAs(total, decimals) || !isAsFineAs(monthlyTotal, decimals)) {
        throw refused(call.action, ...TOO_FINE)
      }
      const { context } = call
      const record: ProposalRecord = {
        id: context.ids('prop'),
        number: number ?? seriesOf('PROP', toTimestamp(context.now)),
        title,
        status: 'draft',
        version: 1,
        total,
        monthlyTotal,
        currency,
        minorUnits: decimals,
      }
      const representation = numberedRepresentation(record)
      const prepared = { record, representation, events: [proposalCreated(representation, context)] }
      return created(call, prepared, (creation) => store.proposals.create(creation))
    }),
    revise: build('proposals.revise', 'Cannot revise the proposal', REVISE_FIELDS, async (call) => {
      const { proposalId: _, ...changes } = call.input
      const { currency } = changes
      const decimals = currency === undefined ? {} : { minorUnits: minorUnits(currency) }
      return change(call, 'revise', { ...changes, ...decimals, isRevision: true })
    }),
    send: build('proposals.send', 'Cannot send the proposal', REF_FIELDS, async (call) =>
      change(call, 'send'),
    ),
    accept: build('proposals.accept', 'Cannot accept the proposal', ACCEPT_FIELDS, async (call) => {
      const { signedBy, signedAt = toTimestamp(call.context.now) } = call.input
      return change(call, 'accept', { signature: { signedBy, signedAt } })
    }),
    reject: build('proposals.reject', 'Cannot reject the proposal', REF_FIELDS, async (call) =>
      change(call, 'reject'),
    ),
  }
}

const TOO_FINE: Refusal = [
  INVALID_INPUT,
  'its price has more decimals than its currency',
  ['total', 'monthlyTotal'],
]

function proposalCreated(proposal: Proposal, context: WriteContext): EventRecord {
  const { id: proposalId, number, version, status } = proposal
  const data = { proposalId, number, version, status, proposal }
  return buildEventTemplate(proposalEvents, 'proposal.created', data, context)
}

function proposalEvent(
  type: 'proposal.sent' | 'proposal.accepted' | 'proposal.rejected',
  proposalId: string,
  context: WriteContext,
): EventRecord {
  return buildEventTemplate(proposalEvents, type, { proposalId, proposal: WHOLE_RECORD }, context)
}
