import {
  type Business,
  type CreateBusinessInput,
  CreateBusinessInputSchema,
  newBusiness,
} from '../businesses.ts'
import type { RecordStore } from '../store.ts'
import { type CallOptions, type CallTools, createdItem, defineCall, withReply } from './calls.ts'

/** A business to be created. */
export interface NewBusiness extends CallOptions, Optional<CreateBusinessInput> {
  /** 2 to 150 characters. */
  readonly name: string
}

type Optional<Input> = { readonly [Field in keyof Input]?: Input[Field] | undefined }

/** What the host does with businesses. */
export interface BusinessCalls {
  /** Creates a business that is no client yet: leads can be of it. Publishes `business.created`. */
  create(organizationId: string, business: NewBusiness): Promise<Business>
}

/** The calls about businesses. */
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
      const { record, item, events } = newBusiness(call.input, call.making)
      const idempotency = withReply(call.claim, item)
      const creation = { organizationId: call.organizationId, record, events, idempotency }
      return createdItem(call, await store.businesses.create(creation), item)
    },
  }
}
