import type * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage } from './admission.ts'
import type { Creation, CreationOutcome } from './creation.ts'
import type { RecordedEvent } from './envelope.ts'
import type { Making } from './making.ts'
import type { Scope } from './scopes.ts'

/** What a resource declares of an operation: enough to serve it and to describe it in the OpenAPI document. */
interface Declaration {
  readonly path: string
  readonly operationId: string
  readonly tag: string
  /** The one scope that a key needs (specification, section 4). */
  readonly scope: Scope
  readonly summary: string
  readonly description: string
  readonly item: v.GenericSchema
  /** The name of the item's schema in the document. */
  readonly itemName: string
}

/** `GET`: the newest items as one page. */
export interface ListRoute extends Declaration {
  readonly method: 'GET'
  /** Reads at most `limit` items for the key that `request` names. */
  list(request: AdmissionRequest, limit: number): Promise<AdmittedPage<unknown>>
}

/** `POST`: a new record. */
export interface CreateRoute extends Declaration {
  readonly method: 'POST'
  readonly input: v.GenericSchema
  /** The name of the input's schema in the document. */
  readonly inputName: string
  /** Prepares the record, the events and the answer for an input that has passed its schema. Writes nothing. */
  prepare(input: unknown, making: Making): PreparedCreation
}

/** A creation that waits only for the organization and the idempotency key of its request. */
export interface PreparedCreation {
  /** What the API answers as `data`. */
  readonly item: unknown
  create(
    claim: Pick<Creation<unknown>, 'organizationId' | 'idempotency'>,
  ): Promise<CreationOutcome | { readonly outcome: 'no_business' }>
}

/** An operation of the API. */
export type Route = ListRoute | CreateRoute

/** Declares a list operation. */
export function listRoute(route: Omit<ListRoute, 'method'>): ListRoute {
  return { method: 'GET', ...route }
}

/**
 * Declares a create operation. What `make` returns is tied to what `create` takes here, so that the rest of the API can
 * treat all of them alike.
 */
export function createRoute<Input extends v.GenericSchema, NewRecord>({
  make,
  create,
  ...declaration
}: Declaration & {
  readonly input: Input
  readonly inputName: string
  make(
    input: v.InferOutput<Input>,
    making: Making,
  ): { readonly record: NewRecord; readonly item: unknown; readonly events: readonly RecordedEvent[] }
  create(creation: Creation<NewRecord>): Promise<CreationOutcome | { readonly outcome: 'no_business' }>
}): CreateRoute {
  return {
    method: 'POST',
    ...declaration,
    prepare(input, making) {
      const { record, item, events } = make(input as v.InferOutput<Input>, making)
      return { item, create: (claim) => create({ ...claim, record, events }) }
    },
  }
}
