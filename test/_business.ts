import { type Business, BusinessSchema } from '../lib/resources/businesses.ts'

/** A business with the given fields; the others are null. */
export function businessOf(given: Pick<Business, 'id'> & Partial<Business>): Business {
  const fields = Object.keys(BusinessSchema.entries).map((field) => [field, null])
  return { ...(Object.fromEntries(fields) as Business), name: 'Atlas', ...given }
}
