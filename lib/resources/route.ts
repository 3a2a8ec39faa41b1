import type * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import type { ApiKeyStore } from '../access/api-keys.ts'
import type { Scope } from '../access/scopes.ts'
import type { IdKind } from '../base/ids.ts'
import { untraced } from '../base/tracing.ts'
import type { Creation } from '../writes/creation.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { type ApiCreationOutcome, type OneStep, oneStepOf } from '../writes/one-step.ts'
import type { WriteContext } from '../writes/write-context.ts'

/** The declaration of an operation by a resource, for serving the operation and for the OpenAPI document. */
interface Declaration {
  readonly path: string
  readonly operationId: string
  readonly tag: string
  /** The scope that a key needs (specification, section 4). */
  readonly scope: Scope
  readonly summary: string
  readonly description: string
  /** The schema of a record in the answer. */
  readonly representation: v.GenericSchema
  /** The name of that schema in the document. */
  readonly representationName: string
}

/** `GET`: a page of the records. */
export interface ListRoute extends Declaration {
  readonly method: 'GET'
  /** The kind of the records' ids, for `before`. */
  readonly idKind: IdKind
  /** Reads the page for the key that `request` names. */
  admitAndList(request: AdmissionRequest, asked: PageRequest): Promise<AdmittedPage<unknown>>
}

/** `POST`: a new record. */
export interface CreateRoute extends Declaration {
  readonly method: 'POST'
  readonly input: v.GenericSchema
  /** The name of the input's schema in the document. */
  readonly inputName: string
  /** Prepares the record, the events and the answer for validated input. Writes nothing. */
  prepare(input: unknown, context: WriteContext): PreparedCreation
  create(creation: Creation<unknown>): Promise<ApiCreationOutcome>
  /** Finds the one step in place of `admit` and of `create`: see {@link oneStepOf}. */
  oneStep(admit: ApiKeyStore['admit']): OneStep<unknown> | undefined
}

/** A prepared creation. Only the organization and the idempotency key of the request are missing. */
export interface PreparedCreation extends Pick<Creation<unknown>, 'record' | 'events'> {
  /** The `data` of the answer. */
  readonly representation: unknown
}

/** An operation of the API. */
export type Route = ListRoute | CreateRoute

/** Declares a list operation. */
export function listRoute(route: Omit<ListRoute, 'method'>): ListRoute {
  return { method: 'GET', ...route }
}

/** Declares a create operation; `create` is the verb of the store's slice. The input of `create` is the result of `build`. */
export function createRoute<Input extends v.GenericSchema, NewRecord>({
  build,
  create,
  ...declaration
}: Declaration & {
  readonly input: Input
  readonly inputName: string
  build(input: v.InferOutput<Input>, context: WriteContext): NewCreation<NewRecord>
  /** Gives the verb that creates. */
  create(): (creation: Creation<NewRecord>) => Promise<ApiCreationOutcome>
}): CreateRoute {
  // The records that come here are those of `build`.
  const verb = create as () => (creation: Creation<unknown>) => Promise<ApiCreationOutcome>
  return {
    method: 'POST',
    ...declaration,
    prepare: (input, context) => build(input as v.InferOutput<Input>, context),
    create: (creation) => verb()(creation),
    oneStep: (admit) => oneStepOf(untraced(admit), untraced(verb())),
  }
}

interface NewCreation<NewRecord> {
  readonly record: NewRecord
  readonly representation: unknown
  readonly events: readonly EventRecord[]
}
