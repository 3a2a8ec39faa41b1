import * as v from 'valibot'
import * as field from '../base/fields.ts'
import type { Creation, CreationOutcome } from '../writes/creation.ts'
import { buildEvent, type EventRecord, eventType } from '../writes/event-envelope.ts'
import type { WriteContext } from '../writes/write-context.ts'

// --- Schemas (specification, section 2) ---

/** A business as nested in a client. The API has no operations on businesses: creating a client creates one. */
export const BusinessSchema = v.object({
  id: field.id('biz', 'The business: what `businessId` of a new lead names.'),
  name: field.prose(150, 'The name of the business.', 'Atlas Ceramics'),
  category: v.nullable(field.prose(80, 'What the business does.', 'Manufacturing')),
  city: v.nullable(field.prose(80, 'Where the business is.', 'Tunis')),
  email: v.nullable(
    v.pipe(
      v.string(),
      v.maxLength(254),
      v.description('Its email address.'),
      v.examples(['hello@atlas.example']),
    ),
  ),
  phone: v.nullable(field.prose(30, 'Its phone number, as given.', '+216 71 000 000')),
})

/** The input that creates a business, alone or with its client (specification, section 2, CreateClientInput). */
export const CreateBusinessInputSchema = v.object({
  name: v.pipe(
    field.text(2, 150),
    v.description('The name of the business.'),
    v.examples(['Atlas Ceramics']),
  ),
  category: v.exactOptional(
    v.pipe(field.text(0, 80), v.description('What the business does.'), v.examples(['Manufacturing'])),
  ),
  city: v.exactOptional(
    v.pipe(field.text(0, 80), v.description('Where the business is.'), v.examples(['Tunis'])),
  ),
  email: v.exactOptional(
    v.pipe(field.email(), v.description('Its email address.'), v.examples(['hello@atlas.example'])),
  ),
  phone: v.exactOptional(
    v.pipe(field.text(0, 30), v.description('Its phone number, as given.'), v.examples(['+216 71 000 000'])),
  ),
})

// --- Types ---

/** A business as nested in a client: `{ id, name, category, city, email, phone }`, all but the first two nullable. */
export type Business = v.InferOutput<typeof BusinessSchema>
/** The validated input of a new business: `name`, and any of `category`, `city`, `email`, `phone`. */
export type CreateBusinessInput = v.InferOutput<typeof CreateBusinessInputSchema>

// --- Events (specification, section 6) ---

/** The events of businesses. */
export const businessEvents = {
  'business.created': eventType(
    'A business was created',
    'Sent before `client.created` when a client is created: a client brings its business.',
    {
      businessId: field.id('biz', 'The new business.'),
      business: BusinessSchema,
    },
  ),
}

// --- Store ---

/** The slice of a store for businesses without a client. */
export interface BusinessStore {
  /** Writes the business, its events and the idempotency entry at once or not at all. */
  create(creation: Creation<Business>): Promise<CreationOutcome>
}

/** Builds a business from its input, with the event of its creation. */
export function newBusiness(
  input: CreateBusinessInput,
  context: WriteContext,
): { record: Business; representation: Business; events: readonly EventRecord[] } {
  const business: Business = {
    id: context.ids('biz'),
    name: input.name,
    category: input.category ?? null,
    city: input.city ?? null,
    email: input.email ?? null,
    phone: input.phone ?? null,
  }
  const event = buildEvent(businessEvents, 'business.created', { businessId: business.id, business }, context)
  return { record: business, representation: business, events: [event] }
}
