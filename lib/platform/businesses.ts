import { IdSchema, type Optional } from '../base/host-input.ts'
import type { PageQuery } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import {
  type Business,
  type BusinessChanges,
  type CreateBusinessInput,
  CreateBusinessInputSchema,
  newBusiness,
  UpdateBusinessInputSchema,
} from '../resources/businesses.ts'
import { type CallOptions, type CallTools, changed, createBuildWrite, created } from './calls.ts'
import { createReads, type Reads } from './reads.ts'

/** A new business. */
export interface NewBusiness extends CallOptions, Optional<CreateBusinessInput> {
  /** 2 to 150 characters. */
  readonly name: string
}

/** Changes to a business, see {@link NewBusiness}. Missing properties stay unchanged, and `null` removes a value. */
export interface BusinessUpdate extends CallOptions, Optional<BusinessChanges> {
  readonly businessId: string
}

/** Business calls. */
export interface BusinessCalls extends Reads<Business, PageQuery> {
  /** Creates a business that isn't a client yet, so you can add leads. Publishes `business.created`. */
  create(organizationId: string, business: NewBusiness): Promise<Business>
  /**
   * Updates a business. If it's already a client, the client gets the new values immediately, and API clients that sync
   * will see the change. Doesn't publish anything.
   *
   * @returns the updated business
   * @throws `BusinessApiError` with code `not_found` if the organization has no business with this id
   */
  update(organizationId: string, update: BusinessUpdate): Promise<Business>
}

const UPDATE_FIELDS = { businessId: IdSchema, ...UpdateBusinessInputSchema.entries }

/** Creates the business calls. */
export function createBusinessCalls(store: Pick<RecordStore, 'businesses'>, tools: CallTools): BusinessCalls {
  const build = createBuildWrite(tools)
  return {
    ...createReads(['business', 'businesses'], {}, () => store.businesses),
    create: build(
      'businesses.create',
      'Cannot create the business',
      CreateBusinessInputSchema.entries,
      async (call) =>
        created(call, newBusiness(call.input, call.context), (creation) => store.businesses.create(creation)),
    ),
    update: build('businesses.update', 'Cannot update the business', UPDATE_FIELDS, async (call) => {
      const { businessId, ...set } = call.input
      return changed(call, { recordId: businessId, set }, (change) => store.businesses.change(change), {})
    }),
  }
}
