import * as v from 'valibot'
import * as field from './fields.ts'

// --- Schemas (specification, section 2) ---

/** A business as nested in a client. Businesses have no operations of their own: creating a client creates one. */
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

// --- Types ---

/** A business as nested in a client: `{ id, name, category, city, email, phone }`, all but the first two nullable. */
export type Business = v.InferOutput<typeof BusinessSchema>

// --- Events (specification, section 6) ---

/** The events of businesses. */
export const businessEvents = {
  'business.created': v.object({
    businessId: field.id('biz', 'The new business.'),
    business: BusinessSchema,
  }),
}
