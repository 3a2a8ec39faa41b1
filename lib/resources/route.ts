import type * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import type { Resource, Scope, WritableResource } from '../access/scopes.ts'
import type { IdKind } from '../base/ids.ts'
import type { ApiCreationOutcome, Creation, PreparedCreation } from '../writes/creation.ts'
import type { WriteContext } from '../writes/write-context.ts'
import type { RecordTable } from './columns.ts'

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
  /** What the records are: the description of the tag. */
  readonly about: string
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
}

/** An operation of the API. */
export type Route = ListRoute | CreateRoute

interface Own extends Pick<Declaration, 'representation'> {
  readonly table: Pick<RecordTable, 'kind' | 'idKind'>
  /** Several records: `clients`. */
  readonly many: Resource
}

/** What follows from the names of a resource. */
function named({ table, many, representation }: Own) {
  return {
    path: `/api/v1/${many}`,
    tag: capital(many),
    representation,
    representationName: capital(table.kind),
  }
}

/** Returns a name with a capital: `Clients`. */
export function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}

/** Declares the list of a resource: `GET /api/v1/clients`, with the scope `clients:read`. */
export function listRoute({
  note,
  about,
  store,
  ...own
}: Own &
  Pick<ListRoute, 'about'> & {
    /** A further sentence of the description. */
    readonly note?: string
    readonly store: Pick<ListRoute, 'admitAndList'>
  }): ListRoute {
  const description = `The newest ${own.many} of the organization, newest first.`
  return {
    method: 'GET',
    ...named(own),
    operationId: `list${capital(own.many)}`,
    scope: `${own.many}:read`,
    summary: `List ${own.many}`,
    description: note === undefined ? description : `${description} ${note}`,
    about,
    idKind: own.table.idKind,
    admitAndList: (request, asked) => store.admitAndList(request, asked),
  }
}

/**
 * Declares the creation of a resource: `POST /api/v1/clients`, with the scope `clients:write`; `create` is the verb of the store's slice.
 * The input of `create` is the result of `build`.
 */
export function createRoute<Input extends v.GenericSchema, NewRecord>({
  build,
  create,
  input,
  summary,
  description,
  ...own
}: Own & {
  readonly many: WritableResource
  readonly input: Input
  readonly summary: string
  readonly description: string
  build(input: v.InferOutput<Input>, context: WriteContext): PreparedCreation<NewRecord>
  create(creation: Creation<NewRecord>): Promise<ApiCreationOutcome>
}): CreateRoute {
  return {
    method: 'POST',
    ...named(own),
    operationId: `create${capital(own.table.kind)}`,
    scope: `${own.many}:write`,
    summary,
    description,
    input,
    inputName: `Create${capital(own.table.kind)}Input`,
    prepare: (given, context) => build(given as v.InferOutput<Input>, context),
    // The records that come here are those of `build`.
    create: (creation) => create(creation as Creation<NewRecord>),
  }
}
