import * as v from 'valibot'
import * as field from '../base/fields.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome, PreparedCreation } from '../writes/creation.ts'
import { buildEvent, eventType } from '../writes/event-envelope.ts'
import type { WriteContext } from '../writes/write-context.ts'
import { FORGOTTEN_NAME, forgotten, type RecordTable } from './columns.ts'
import type { RecordReads } from './record-reads.ts'
import { inputOf } from './route.ts'

// --- Schemas (specification, section 2) ---

/** The schema of a business inside a client. The API has no operations on businesses: creating a client creates a business. */
export const BusinessSchema = v.object({
  id: field.id('biz', 'The id of the business: the value of `businessId` for a new lead.'),
  name: field.prose(150, 'The name of the business.', 'Atlas Ceramics'),
  category: v.nullable(field.prose(80, 'The trade of the business.', 'Manufacturing')),
  city: v.nullable(field.prose(80, 'The city of the business.', 'Tunis')),
  email: v.nullable(field.prose(254, 'The email address of the business.', 'hello@atlas.example')),
  phone: v.nullable(field.prose(30, 'The phone number of the business, as given.', '+216 71 000 000')),
})

/** The schema of the input that creates a business, alone or with a client (specification, section 2, CreateClientInput). */
export const CreateBusinessInputSchema = inputOf(BusinessSchema, {
  name: field.text(2, 150),
  category: v.exactOptional(field.text(0, 80)),
  city: v.exactOptional(field.text(0, 80)),
  email: v.exactOptional(field.email()),
  phone: v.exactOptional(field.text(0, 30)),
})

/** The schema for updating a business: absent fields stay, null removes a value. */
export const UpdateBusinessInputSchema = v.object({
  name: v.exactOptional(field.text(2, 150)),
  category: v.exactOptional(v.nullable(field.text(0, 80))),
  city: v.exactOptional(v.nullable(field.text(0, 80))),
  email: v.exactOptional(v.nullable(field.email())),
  phone: v.exactOptional(v.nullable(field.text(0, 30))),
})

// --- Types ---

/** A business; every field but `id` and `name` may be null. */
export type Business = v.InferOutput<typeof BusinessSchema>
/** The fields of a business that a change can set; null removes a value. */
export type BusinessChanges = Partial<Omit<Business, 'id'>>
/** The validated input of a new business: `name`, and any of the other fields. */
export type CreateBusinessInput = v.InferOutput<typeof CreateBusinessInputSchema>

// --- Columns ---

/** The columns of businesses. */
export const businessTable: RecordTable<Business> = {
  kind: 'business',
  idKind: 'biz',
  table: 'businesses',
  columns: {
    id: {},
    name: { isChangeable: true, forgotten: FORGOTTEN_NAME },
    category: { isChangeable: true, forgotten: null },
    city: { isChangeable: true, forgotten: null },
    email: { isChangeable: true, forgotten: null },
    phone: { isChangeable: true, forgotten: null },
  },
}

/** Gives a business without personal values. */
export function forgottenBusiness(business: Business): Business {
  return { ...business, ...forgotten(businessTable) }
}

// --- Events (specification, section 6) ---

/** The events of businesses. */
export const businessEvents = {
  'business.created': eventType(
    'A business was created',
    'Sent before `client.created` when a client is created, because creating a client creates a business.',
    {
      businessId: field.id('biz', 'The new business.'),
      business: BusinessSchema,
    },
  ),
}

// --- Store ---

/** Selects businesses: there is nothing to select by. */
export type BusinessFilter = Readonly<Record<string, never>>

/** The slice of a store for businesses: creating a client creates a business too. */
export interface BusinessStore extends RecordReads<Business, BusinessFilter> {
  /** Writes the business, its events and the idempotency entry at once or not at all. */
  create(creation: Creation<Business>): Promise<CreationOutcome>

  /**
   * Changes a business, and with the business the client that it has become: the client is shown with the new fields, also by
   * lists of changes. The business has no state, so `from` is null.
   */
  change(change: Change<BusinessChanges>): Promise<ChangeOutcome<Business>>
}

/** In the schema's order, as in the stored representation. */
const FIELDS = Object.keys(BusinessSchema.entries) as readonly (keyof Business)[]

/** Builds a business from validated input, with the event `business.created`. */
export function newBusiness(
  input: CreateBusinessInput,
  context: WriteContext,
): PreparedCreation<Business, Business> {
  const given: Partial<Business> = { ...input, id: context.ids('biz') }
  const business = Object.fromEntries(FIELDS.map((field) => [field, given[field] ?? null])) as Business
  const event = buildEvent(businessEvents, 'business.created', { businessId: business.id, business }, context)
  return { record: business, representation: business, events: [event] }
}
