import type { RecordStore } from '../business-store.ts'
import {
  type Business,
  type CreateBusinessInput,
  CreateBusinessInputSchema,
  newBusiness,
} from '../resources/businesses.ts'
import { type CallOptions, type CallTools, createdRepresentation, defineCall, withReply } from './calls.ts'

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
    async create(organizationId, business) {
      const call = readCreate(organizationId, business)
      const { record, representation, events } = newBusiness(call.input, call.context)
      const idempotency = withReply(call.reservation, representation)
      const creation = { organizationId: call.organizationId, record, events, idempotency }
      return createdRepresentation(call, await store.businesses.create(creation), representation)
    },
  }
}
