import * as v from 'valibot'
import type { Creation, CreationOutcome } from './creation.ts'
import { type RecordedEvent, recordEvent } from './envelope.ts'
import * as field from './fields.ts'
import type { Making } from './making.ts'

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

/** What creating a business takes, alone or with its client (specification, section 2, CreateClientInput). */
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
/** What creating a business takes: `name`, and any of `category`, `city`, `email`, `phone`. */
export type CreateBusinessInput = v.InferOutput<typeof CreateBusinessInputSchema>

// --- Events (specification, section 6) ---

/** The events of businesses. */
export const businessEvents = {
  'business.created': v.object({
    businessId: field.id('biz', 'The new business.'),
    business: BusinessSchema,
  }),
}

// --- Store ---

/** What a store must do for businesses without a client. */
export interface BusinessRecordStore {
  /** Writes the business, its events and the idempotency entry at once or not at all. */
  create(creation: Creation<Business>): Promise<CreationOutcome>
}

/** The business that an input asks for, with the event of its creation. */
export function newBusiness(
  input: CreateBusinessInput,
  making: Making,
): { record: Business; item: Business; events: readonly RecordedEvent[] } {
  const business: Business = {
    id: making.ids('biz'),
    name: input.name,
    category: input.category ?? null,
    city: input.city ?? null,
    email: input.email ?? null,
    phone: input.phone ?? null,
  }
  const event = recordEvent(businessEvents, 'business.created', { businessId: business.id, business }, making)
  return { record: business, item: business, events: [event] }
}
