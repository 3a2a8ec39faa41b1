import { IdSchema } from '../base/host-input.ts'
import type { Page, PageQuery } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import {
  type Business,
  type BusinessChanges,
  type BusinessFilter,
  type CreateBusinessInput,
  CreateBusinessInputSchema,
  newBusiness,
  UpdateBusinessInputSchema,
} from '../resources/businesses.ts'
import {
  type CallOptions,
  type CallTools,
  changedRepresentation,
  changeOf,
  createdRepresentation,
  defineWriteCall,
  withReply,
} from './calls.ts'
import { createReads } from './reads.ts'

/** A business to be created. */
export interface NewBusiness extends CallOptions, Optional<CreateBusinessInput> {
  /** 2 to 150 characters. */
  readonly name: string
}

type Optional<Input> = { readonly [Field in keyof Input]?: Input[Field] | undefined }

/** New fields of a business, each as in {@link NewBusiness}; an absent field stays, null removes a value. */
export interface BusinessUpdate extends CallOptions, Optional<BusinessChanges> {
  readonly businessId: string
}

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
  /**
   * Changes fields of a business. The client that the business has become is shown with the new fields at once, and counts as
   * changed for clients that sync. Publishes nothing.
   *
   * @returns the business after the change
   * @throws `BusinessApiError` with code `not_found` for an id that the organization does not have
   */
  update(organizationId: string, update: BusinessUpdate): Promise<Business>
}

const UPDATE_FIELDS = { businessId: IdSchema, ...UpdateBusinessInputSchema.entries }

/** Builds the calls about businesses. */
export function createBusinessCalls(store: Pick<RecordStore, 'businesses'>, tools: CallTools): BusinessCalls {
  const readCreate = defineWriteCall(
    'businesses.create',
    'Cannot create the business',
    CreateBusinessInputSchema.entries,
    tools,
  )
  const readUpdate = defineWriteCall('businesses.update', 'Cannot update the business', UPDATE_FIELDS, tools)
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
    async update(organizationId, update) {
      const call = readUpdate(organizationId, update)
      const { businessId, ...set } = call.input
      const change = changeOf(call, { recordId: businessId, from: null, set, events: [] })
      return changedRepresentation(call, await store.businesses.change(change), {})
    },
  }
}
