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

// --- Schemas (section 2 of the spec) ---

/** A lead, as returned by the API. */
export const LeadSchema = v.object({
  id: field.id('lead', 'ID of the lead.'),
  stage: field.word('Stage of the lead.', 'new', 'contacted', 'qualified', 'proposal', 'won', 'lost'),
  leadScore: v.nullable(field.amount('Score of the lead, from 0 to 100.', 62, 0, 100)),
  scoreBand: v.nullable(
    field.word(
      '`cold` if leadScore is below 40, `warm` if it is below 70, otherwise `hot`.',
      'warm',
      'cold',
      'hot',
    ),
  ),
  expectedValue: v.nullable(field.amount('Expected value of the deal.', 9500)),
  createdAt: field.timestamp('Time at which the lead was created.'),
})

/** Input for creating a lead (see section 2 of the spec, CreateLeadInput). */
export const CreateLeadInputSchema = v.object({
  businessId: v.pipe(
    v.string('must be a string, the id of a business of the organization'),
    // Documented but not validated. A longer id is simply unknown, so the response must be a 404 rather than a 422.
    v.metadata({ maxLength: 64 }),
    v.description('ID of the business: the `business.id` of a client.'),
    v.examples([field.exampleId('biz')]),
  ),
})

// --- Types ---

/** A lead. `scoreBand` is derived from `leadScore`. See {@link scoreBand}. */
export type Lead = v.InferOutput<typeof LeadSchema>
/** The validated CreateLeadInput, just the `businessId`. */
export type CreateLeadInput = v.InferOutput<typeof CreateLeadInputSchema>

/** The lead fields that can be changed. */
export type LeadChanges = Partial<Pick<Lead, 'stage' | 'leadScore' | 'scoreBand'>>

/** A conversion. Marks the lead as won and turns the business into a client. */
export interface Conversion {
  /** The lead's new stage. */
  readonly stage: string
  /** The client to create, unless the business already is a client. The store adds `business`. */
  readonly client: Omit<Client, 'business'>
  /** Published if a client is created. */
  readonly clientEvents: readonly EventRecord[]
}

/** Values that the store adds to a changed lead's events on top of the lead's fields. */
export interface LeadFacts {
  readonly businessId: string
  /** The stage before the change. */
  readonly previousStage: string
  /** The new client, if the conversion created one. */
  readonly client?: Client
}

/** A won lead and the resulting client. */
export interface ConvertedLead {
  readonly lead: Lead
  readonly client: Client
}

/** A lead as returned to the host, including the business's id. */
export interface StoredLead extends Lead, Updated {
  readonly businessId: string
}

// --- Columns ---

/** A lead, including the field that the API doesn't return. */
export type LeadRow = Omit<StoredLead, 'updatedAt'>

/** The lead columns. */
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

// --- Events (section 6 of the spec) ---

/** Lead events by type. */
export const leadEvents = {
  'lead.created': eventType(
    'A lead was created',
    '`businessId` is the business that the lead was created for.',
    {
      leadId: field.id('lead', 'ID of the lead.'),
      businessId: field.id('biz', "ID of the lead's business."),
      lead: LeadSchema,
    },
  ),
  'lead.stage_changed': eventType(
    'A lead moved to another stage',
    'Includes the new and the previous stage.',
    {
      leadId: field.id('lead', 'ID of the lead.'),
      businessId: field.id('biz', "ID of the lead's business."),
      stage: field.word('New stage.', 'qualified'),
      previousStage: field.word('Previous stage.', 'contacted'),
    },
  ),
}

// --- Store ---

/** Filters leads. Omitted properties match everything. */
export interface LeadFilter {
  /** Matches leads in any of these stages, for example `['new', 'contacted']`. */
  readonly stages?: readonly string[] | undefined
  /** The leads' business. */
  readonly businessId?: string | undefined
}

/** The part of a store that manages leads. */
export interface LeadStore extends ListedReads<Lead, StoredLead, LeadFilter> {
  /**
   * Writes the lead, the events and the idempotency entry in one transaction. Returns `no_business` if the organization
   * doesn't have a business with this id, even if another organization does. An active idempotency entry takes
   * precedence. `no_business` doesn't write anything, so the same key can succeed later.
   */
  create(creation: Creation<LeadRow>): Promise<CreationOutcome | { readonly outcome: 'no_business' }>

  /**
   * Changes a lead. If the stage changes, publishes the events, rendered with the lead's fields and {@link LeadFacts}.
   */
  change(change: Change<LeadChanges>): Promise<ChangeOutcome<Lead>>

  /**
   * Moves a lead to a stage and turns the business into a client, unless it already is one. The change's
   * `events` are the lead's, like in `change`. All events are rendered with `lead` and {@link LeadFacts}. A
   * replay returns both records.
   */
  convert(change: Change<Conversion>): Promise<ChangeOutcome<ConvertedLead>>
}

// --- Operations (section 4 of the spec) ---

/** The lead operations. */
export const leadOperations: Operations = {
  ...leadTable,
  about: 'Businesses that may become clients.',
  representation: LeadSchema,
  create: {
    input: CreateLeadInputSchema,
    prepare: (input, context) => newLead(input as CreateLeadInput, context),
    summary: 'Create a lead from an existing business',
    description:
      'Creates a lead in stage `new`. Returns 404 if the organization has no business with this ID.',
  },
}

/** Builds a lead from validated input, along with a `lead.created` event. */
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
  // An id that can't be stored doesn't match any business. Replace it with an empty id, which every store can look up.
  const businessId = field.isStorable(input.businessId) ? input.businessId : ''
  return {
    record: { ...lead, businessId },
    representation: lead,
    events: [buildEvent(leadEvents, 'lead.created', { leadId: lead.id, businessId, lead }, context)],
  }
}

/** Returns a score's band: `cold` below 40, `warm` below 70, otherwise `hot`, or `null` if there's no score. */
export function scoreBand(leadScore: number | null): 'cold' | 'warm' | 'hot' | null {
  if (leadScore === null) return null
  if (leadScore < 40) return 'cold'
  return leadScore < 70 ? 'warm' : 'hot'
}
