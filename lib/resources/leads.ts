import * as v from 'valibot'
import * as field from '../base/fields.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome, PreparedCreation } from '../writes/creation.ts'
import { buildEvent, type EventRecord, eventType } from '../writes/event-envelope.ts'
import { toTimestamp, type WriteContext } from '../writes/write-context.ts'
import type { Client } from './clients.ts'
import type { RecordTable } from './columns.ts'
import type { ListedReads, Updated } from './record-reads.ts'
import type { Operations } from './route.ts'

// --- Schemas (specification, section 2) ---

/** The schema of a lead in the API. */
export const LeadSchema = v.object({
  id: field.id('lead', 'The lead.'),
  stage: field.word('The stage of the lead.', 'new', 'contacted', 'qualified', 'proposal', 'won', 'lost'),
  leadScore: v.nullable(field.amount('The score of the lead, from 0 to 100.', 62, 0, 100)),
  scoreBand: v.nullable(
    field.word('`cold` for a leadScore below 40, `warm` below 70, else `hot`.', 'warm', 'cold', 'hot'),
  ),
  expectedValue: v.nullable(field.amount('The expected value of the deal.', 9500)),
  createdAt: field.timestamp('The time at which the lead was created.'),
})

/** The schema of the input that creates a lead (specification, section 2, CreateLeadInput). */
export const CreateLeadInputSchema = v.object({
  businessId: v.pipe(
    v.string('must be a string, the id of a business of the organization'),
    // In the document only, and not checked: a longer id is an unknown id, and the response is 404, not 422.
    v.metadata({ maxLength: 64 }),
    v.description(
      'The id of a business of the organization: `business.id` of a client, listed or just created.',
    ),
    v.examples([field.exampleId('biz')]),
  ),
})

// --- Types ---

/** A lead. `scoreBand` follows from `leadScore`: see {@link scoreBand}. */
export type Lead = v.InferOutput<typeof LeadSchema>
/** A validated CreateLeadInput: `businessId`. */
export type CreateLeadInput = v.InferOutput<typeof CreateLeadInputSchema>

/** The fields of a lead that a change can set. */
export type LeadChanges = Partial<Pick<Lead, 'stage' | 'leadScore' | 'scoreBand'>>

/** A conversion: the lead is won, and the lead's business becomes a client. */
export interface Conversion {
  /** The new stage of the lead. */
  readonly stage: string
  /** The client to make of the business, unless the business is a client already; the store adds `business`. */
  readonly client: Omit<Client, 'business'>
  /** Published if a client is made. */
  readonly clientEvents: readonly EventRecord[]
}

/** Values that a store puts into the events of a lead's change, beside the fields of the lead. */
export interface LeadFacts {
  readonly businessId: string
  /** The stage before the change. */
  readonly previousStage: string
  /** The new client, if a conversion makes a client. */
  readonly client?: Client
}

/** A won lead, with the client that was made of the lead's business. */
export interface ConvertedLead {
  readonly lead: Lead
  readonly client: Client
}

/** A lead as the host reads it, with the id of the business. */
export interface StoredLead extends Lead, Updated {
  readonly businessId: string
}

// --- Columns ---

/** A lead with the field that the API does not show. */
export type LeadRow = Omit<StoredLead, 'updatedAt'>

/** The columns of leads. */
export const leadTable: RecordTable<LeadRow> = {
  kind: 'lead',
  idKind: 'lead',
  table: 'leads',
  columns: {
    id: {},
    businessId: { isHidden: true },
    stage: { isChangeable: true },
    leadScore: { type: 'numeric(15, 3)', isChangeable: true },
    scoreBand: { isChangeable: true },
    expectedValue: { type: 'numeric(15, 3)' },
    createdAt: { type: 'timestamptz' },
  },
}

// --- Events (specification, section 6) ---

/** The events of leads. */
export const leadEvents = {
  'lead.created': eventType('A lead was created', '`businessId` tells which business the lead is of.', {
    leadId: field.id('lead', 'The new lead.'),
    businessId: field.id('biz', 'The business of the lead.'),
    lead: LeadSchema,
  }),
  'lead.stage_changed': eventType(
    'A lead moved to another stage',
    'Carries the new stage and the previous stage.',
    {
      leadId: field.id('lead', 'The lead.'),
      businessId: field.id('biz', 'The business of the lead.'),
      stage: field.word('The new stage.', 'qualified'),
      previousStage: field.word('The previous stage.', 'contacted'),
    },
  ),
}

// --- Store ---

/** Selects leads; an absent property selects all. */
export interface LeadFilter {
  /** Any of these: `['new', 'contacted']`. */
  readonly stages?: readonly string[] | undefined
  /** The business of the leads. */
  readonly businessId?: string | undefined
}

/** The slice of a store for leads. */
export interface LeadStore extends ListedReads<Lead, StoredLead, LeadFilter> {
  /**
   * Writes the lead, the events and the idempotency entry at once or not at all. `no_business` if the organization has no
   * business with this id, even if another organization has a business with this id; a live idempotency entry is judged first.
   * After `no_business` nothing is written, so the same key may succeed later.
   */
  create(creation: Creation<LeadRow>): Promise<CreationOutcome | { readonly outcome: 'no_business' }>

  /**
   * Changes a lead. The events are rendered with the lead's fields and with {@link LeadFacts}; a change to the present stage
   * publishes no event.
   */
  change(change: Change<LeadChanges>): Promise<ChangeOutcome<Lead>>

  /**
   * Moves a lead to a stage and makes the lead's business a client, unless the business is already a client. `events` of the change are
   * the lead's events, as in `change`. All events are rendered with `lead` and with {@link LeadFacts}; a replay returns `{ lead, client
   * }`.
   */
  convert(change: Change<Conversion>): Promise<ChangeOutcome<ConvertedLead>>
}

// --- Operations (specification, section 4) ---

/** The operations on leads. */
export const leadOperations: Operations = {
  ...leadTable,
  about: 'Businesses that may become clients.',
  representation: LeadSchema,
  create: {
    input: CreateLeadInputSchema,
    prepare: (input, context) => newLead(input as CreateLeadInput, context),
    summary: 'Create a lead from an existing business',
    description:
      'Creates a lead in stage `new`. For an unknown business and for a business of another organization the answer is 404.',
  },
}

/** Builds a lead from validated input, with the event `lead.created`. */
export function newLead(
  input: CreateLeadInput & Partial<Pick<Lead, 'leadScore' | 'expectedValue'>>,
  context: WriteContext,
): PreparedCreation<LeadRow, Lead> {
  const lead: Lead = {
    id: context.ids('lead'),
    stage: 'new',
    leadScore: input.leadScore ?? null,
    scoreBand: scoreBand(input.leadScore ?? null),
    expectedValue: input.expectedValue ?? null,
    createdAt: toTimestamp(context.now),
  }
  // No business has an id that cannot be stored, nor the empty id, which every store can search for.
  const businessId = field.isStorable(input.businessId) ? input.businessId : ''
  return {
    record: { ...lead, businessId },
    representation: lead,
    events: [buildEvent(leadEvents, 'lead.created', { leadId: lead.id, businessId, lead }, context)],
  }
}

/** Returns the band of a score: cold below 40, warm below 70, else hot; null without a score. */
export function scoreBand(leadScore: number | null): 'cold' | 'warm' | 'hot' | null {
  if (leadScore === null) return null
  if (leadScore < 40) return 'cold'
  return leadScore < 70 ? 'warm' : 'hot'
}
