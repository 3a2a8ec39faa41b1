import * as v from 'valibot'
import * as field from '../base/fields.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome, PreparedCreation } from '../writes/creation.ts'
import { buildEvent, eventType } from '../writes/event-envelope.ts'
import type { WriteContext } from '../writes/write-context.ts'
import { FORGOTTEN_NAME, forgotten, type RecordTable } from './columns.ts'
import type { RecordReads } from './record-reads.ts'
import { inputOf } from './route.ts'

// --- Schemas (section 2 of the spec) ---

/** A business as part of a client. The API has no business operations, since creating a client creates its business. */
export const BusinessSchema = v.object({
  id: field.id('biz', 'ID of the business, to use as `businessId` of a lead.'),
  name: field.prose(150, 'Name of the business.', 'Atlas Ceramics'),
  category: v.nullable(field.prose(80, 'Industry of the business.', 'Manufacturing')),
  city: v.nullable(field.prose(80, 'City of the business.', 'Tunis')),
  email: v.nullable(field.prose(254, 'Email address of the business.', 'hello@atlas.example')),
  phone: v.nullable(field.prose(30, 'Phone number of the business, as entered.', '+216 71 000 000')),
})

/** Input for creating a business, either alone or with a client (see section 2 of the spec, CreateClientInput). */
export const CreateBusinessInputSchema = inputOf(BusinessSchema, {
  name: field.text(2, 150),
  category: v.exactOptional(field.text(0, 80)),
  city: v.exactOptional(field.text(0, 80)),
  email: v.exactOptional(field.email()),
  phone: v.exactOptional(field.text(0, 30)),
})

/** Input for updating a business. Omitted fields don't change, and `null` removes a value. */
export const UpdateBusinessInputSchema = v.object({
  name: v.exactOptional(field.text(2, 150)),
  category: v.exactOptional(v.nullable(field.text(0, 80))),
  city: v.exactOptional(v.nullable(field.text(0, 80))),
  email: v.exactOptional(v.nullable(field.email())),
  phone: v.exactOptional(v.nullable(field.text(0, 30))),
})

// --- Types ---

/** A business. All fields except `id` and `name` can be `null`. */
export type Business = v.InferOutput<typeof BusinessSchema>
/** The business fields that can be changed. `null` removes a value. */
export type BusinessChanges = Partial<Omit<Business, 'id'>>
/** Validated input for a new business. Only `name` is required. */
export type CreateBusinessInput = v.InferOutput<typeof CreateBusinessInputSchema>

// --- Columns ---

/** The business columns. */
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

/** Returns a copy of a business without personal data. */
export function forgottenBusiness(business: Business): Business {
  return { ...business, ...forgotten(businessTable) }
}

// --- Events (section 6 of the spec) ---

/** Business events by type. */
export const businessEvents = {
  'business.created': eventType(
    'A business was created',
    'Sent before `client.created` when a client is created, because creating a client creates a business.',
    {
      businessId: field.id('biz', 'ID of the business.'),
      business: BusinessSchema,
    },
  ),
}

// --- Store ---

/** Filters businesses. Empty because there's nothing to filter by. */
export type BusinessFilter = Readonly<Record<string, never>>

/** The part of a store that manages businesses. Note: creating a client also creates a business. */
export interface BusinessStore extends RecordReads<Business, BusinessFilter> {
  /** Writes the business, the events and the idempotency entry in one transaction. */
  create(creation: Creation<Business>): Promise<CreationOutcome>

  /**
   * Changes a business and the client it has become (if any). The client is returned with the new fields and shows up
   * in lists of changes. `from` is always `null` because businesses don't have a state.
   */
  change(change: Change<BusinessChanges>): Promise<ChangeOutcome<Business>>
}

/** All fields in schema order, as in the stored JSON. */
const FIELDS = Object.keys(BusinessSchema.entries) as readonly (keyof Business)[]

/** Builds a business from validated input, along with a `business.created` event. */
export function newBusiness(
  input: CreateBusinessInput,
  context: WriteContext,
): PreparedCreation<Business, Business> {
  const given: Partial<Business> = { ...input, id: context.ids('biz') }
  const business = Object.fromEntries(FIELDS.map((field) => [field, given[field] ?? null])) as Business
  const event = buildEvent(businessEvents, 'business.created', { businessId: business.id, business }, context)
  return { record: business, representation: business, events: [event] }
}
