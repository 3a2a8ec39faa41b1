import type { Page, PageQuery } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import {
  type Business,
  type BusinessFilter,
  type CreateBusinessInput,
  CreateBusinessInputSchema,
  newBusiness,
} from '../resources/businesses.ts'
import { type CallOptions, type CallTools, createdRepresentation, defineCall, withReply } from './calls.ts'
import { createReads } from './reads.ts'

/** A business to be created. */
export interface NewBusiness extends CallOptions, Optional<CreateBusinessInput> {
  /** 2 to 150 characters. */
  readonly name: string
}

type Optional<Input> = { readonly [Field in keyof Input]?: Input[Field] | undefined }

/** The host's calls about businesses. */
export interface BusinessCalls {
  /** Creates a business that is no client yet and can have leads. Publishes `business.created`. */
  create(organizationId: string, business: NewBusiness): Promise<Business>
  /** Lists businesses, those of clients included, newest first. */
  list(organizationId: string, query?: PageQuery): Promise<Page<Business>>
  /**
   * Gives a business.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no business of that id
   */
  get(organizationId: string, businessId: string): Promise<Business>
}

/** Builds the calls about businesses. */
export function createBusinessCalls(store: Pick<RecordStore, 'businesses'>, tools: CallTools): BusinessCalls {
  const readCreate = defineCall(
    'businesses.create',
    'Cannot create the business',
    CreateBusinessInputSchema,
    tools,
  )
  return {
    ...createReads<Business, PageQuery, BusinessFilter>(
      ['business', 'businesses'],
      {},
      () => store.businesses,
    ),
    async create(organizationId, business) {
      const call = readCreate(organizationId, business)
      const { record, representation, events } = newBusiness(call.input, call.context)
      const idempotency = withReply(call.reservation, representation)
      const creation = { organizationId: call.organizationId, record, events, idempotency }
      return createdRepresentation(call, await store.businesses.create(creation), representation)
    },
  }
}
