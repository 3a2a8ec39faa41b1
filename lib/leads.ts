import * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage } from './admission.ts'
import type { Change, ChangeOutcome } from './change.ts'
import type { Client } from './clients.ts'
import type { Creation, CreationOutcome } from './creation.ts'
import { type RecordedEvent, recordEvent } from './envelope.ts'
import * as field from './fields.ts'
import { type Making, toTimestamp } from './making.ts'
import { createRoute, listRoute, type Route } from './route.ts'

// --- Schemas (specification, section 2) ---

/** A lead as the API shows it. */
export const LeadSchema = v.object({
  id: field.id('lead', 'The lead.'),
  stage: field.word('Where the lead stands.', 'new', 'contacted', 'qualified', 'proposal', 'won', 'lost'),
  leadScore: v.nullable(
    v.pipe(v.number(), v.minValue(0), v.maxValue(100), v.description('0 to 100.'), v.examples([62])),
  ),
  scoreBand: v.nullable(
    field.word('cold below a leadScore of 40, warm below 70, else hot.', 'warm', 'cold', 'hot'),
  ),
  expectedValue: v.nullable(field.amount('What the deal may be worth.', 9500)),
  createdAt: field.timestamp('When the lead was created.'),
})

/** What creating a lead takes (specification, section 2, CreateLeadInput). */
export const CreateLeadInputSchema = v.object({
  businessId: v.pipe(
    v.string('must be a string, the id of a business of the organization'),
    // Said, not checked: a longer id is as unknown as any other, 404 and not 422.
    v.metadata({ maxLength: 64 }),
    v.description('The id of an existing business of the organization.'),
    v.examples(['biz_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC']),
  ),
})

// --- Types ---

/** A lead. `scoreBand` follows from `leadScore`: see {@link scoreBand}. */
export type Lead = v.InferOutput<typeof LeadSchema>
/** A validated CreateLeadInput: `businessId`. */
export type CreateLeadInput = v.InferOutput<typeof CreateLeadInputSchema>

/** What of a lead can be changed. */
export type LeadChanges = Partial<Pick<Lead, 'stage' | 'leadScore' | 'scoreBand'>>

/** What winning a lead makes of its business. */
export interface Conversion {
  /** The stage it gets. */
  readonly stage: string
  /** The client, its business left blank, that the business becomes unless it is one already. */
  readonly client: Omit<Client, 'business'>
  /** Recorded if a client is made. */
  readonly clientEvents: readonly RecordedEvent[]
}

/** A lead that was won, with the client that its business is now. */
export interface ConvertedLead {
  readonly lead: Lead
  readonly client: Client
}

/** A lead as stored: the API does not show which business it is of. */
export interface LeadRecord {
  readonly lead: Lead
  readonly businessId: string
}

// --- Events (specification, section 6) ---

/** The events of leads. */
export const leadEvents = {
  'lead.created': v.object({
    leadId: field.id('lead', 'The new lead.'),
    businessId: field.id('biz', 'The business it is of.'),
    lead: LeadSchema,
  }),
  'lead.stage_changed': v.object({
    leadId: field.id('lead', 'The lead.'),
    businessId: field.id('biz', 'The business it is of.'),
    stage: field.word('The stage it is in now.', 'qualified'),
    previousStage: field.word('The stage it was in.', 'contacted'),
  }),
}

// --- Store ---

/** What a store must do for leads. */
export interface LeadStore {
  /** As `ClientStore.list`, for leads. */
  list(request: AdmissionRequest, limit: number): Promise<AdmittedPage<Lead>>

  /**
   * Writes the lead, its events and the idempotency entry at once or not at all. `no_business` when the organization
   * has no business of that id, whether or not another organization has; a live idempotency entry is judged first.
   * Nothing is recorded then, so the same key may succeed later.
   */
  create(creation: Creation<LeadRecord>): Promise<CreationOutcome | { readonly outcome: 'no_business' }>

  /**
   * Changes a lead. The blanks `businessId` and `previousStage` of its events are filled in beside the lead's fields, and
   * events of a stage that stays the same are left out.
   */
  change(change: Change<LeadChanges>): Promise<ChangeOutcome<Lead>>

  /**
   * Moves a lead to a stage and makes its business a client, unless it is one. The change's events are those of the lead,
   * left out as in `change`. The blanks of all its events are `lead` and `client`, `businessId` and `previousStage`; a
   * replay answers both, `{ lead, client }`.
   */
  convert(change: Change<Conversion>): Promise<ChangeOutcome<ConvertedLead>>
}

// --- Routes (specification, section 4) ---

/** The operations on leads. */
export function leadRoutes(store: LeadStore): readonly Route[] {
  return [
    listRoute({
      path: '/api/v1/leads',
      operationId: 'listLeads',
      tag: 'Leads',
      scope: 'leads:read',
      summary: 'List leads',
      description: 'The newest leads of the organization, newest first.',
      item: LeadSchema,
      itemName: 'Lead',
      list: (request, limit) => store.list(request, limit),
    }),
    createRoute({
      path: '/api/v1/leads',
      operationId: 'createLead',
      tag: 'Leads',
      scope: 'leads:write',
      summary: 'Create a lead from an existing business',
      description:
        'Creates a lead in stage `new`. A business of another organization is as unknown as none: 404.',
      input: CreateLeadInputSchema,
      inputName: 'CreateLeadInput',
      item: LeadSchema,
      itemName: 'Lead',
      make: newLead,
      create: (creation) => store.create(creation),
    }),
  ]
}

/** The lead that an input asks for, with the event of its creation. */
export function newLead(
  input: CreateLeadInput & Partial<Pick<Lead, 'leadScore' | 'expectedValue'>>,
  making: Making,
): { record: LeadRecord; item: Lead; events: readonly RecordedEvent[] } {
  const lead: Lead = {
    id: making.ids('lead'),
    stage: 'new',
    leadScore: input.leadScore ?? null,
    scoreBand: scoreBand(input.leadScore ?? null),
    expectedValue: input.expectedValue ?? null,
    createdAt: toTimestamp(making.now),
  }
  // What no store can keep is no business's id either; the empty id is one that every store can look for in vain.
  const businessId = field.isStorable(input.businessId) ? input.businessId : ''
  return {
    record: { lead, businessId },
    item: lead,
    events: [recordEvent(leadEvents, 'lead.created', { leadId: lead.id, businessId, lead }, making)],
  }
}

/** The band of a score: cold below 40, warm below 70, else hot; none without a score. */
export function scoreBand(leadScore: number | null): 'cold' | 'warm' | 'hot' | null {
  if (leadScore === null) return null
  if (leadScore < 40) return 'cold'
  return leadScore < 70 ? 'warm' : 'hot'
}
