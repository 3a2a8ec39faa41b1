import * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import type { Resource, Scope, WritableResource } from '../access/scopes.ts'
import * as field from '../base/fields.ts'
import { MomentSchema } from '../base/host-input.ts'
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
  /** The schema of a record in the response. */
  readonly representation: v.GenericSchema
  /** The name of that schema in the document. */
  readonly representationName: string
}

/** `GET`: a page of the records. */
export interface ListRoute extends Declaration {
  readonly method: 'GET'
  /** Describes the records: the tag's description. */
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
  /** Prepares the record, the events and the response for validated input. Writes nothing. */
  prepare(input: unknown, context: WriteContext): PreparedCreation
  create(creation: Creation<unknown>): Promise<ApiCreationOutcome>
}

/** An operation of the API. */
export type Route = ListRoute | CreateRoute

/** The verbs of a store's slice that operations call. */
export type Slice = Pick<ListRoute, 'admitAndList'> & Pick<CreateRoute, 'create'>

/** The operations on a resource, as its file declares them; all names follow from the names of the resource. */
export interface Operations extends Pick<RecordTable, 'kind' | 'idKind'> {
  /** Describes the records: the tag's description. */
  readonly about: string
  /** A further sentence of the list's description. */
  readonly note?: string
  readonly representation: v.GenericSchema
  /** Absent: the API creates no such records. */
  readonly create?: Pick<CreateRoute, 'summary' | 'description' | 'input' | 'prepare'>
}

/** Returns a name with a capital: `Clients`. */
export function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}

/**
 * Makes the schema of the input that creates a record: fields of the host's own calls, with the description and the examples that the
 * field has in the record.
 *
 * @example inputOf(ProjectSchema, { name: field.text(1, 200) })
 */
export function inputOf<Entries extends v.ObjectEntries>(
  record: v.ObjectSchema<v.ObjectEntries, undefined>,
  fields: Entries,
): v.ObjectSchema<Entries, undefined> {
  const entries = Object.entries<v.GenericSchema>(fields).map(([name, rule]) => {
    const shown: v.GenericSchema | undefined = record.entries[name]
    if (shown === undefined) throw new TypeError(`Cannot describe '${name}', which is no field of the record`)
    const { wrapped: words = shown } = shown as { readonly wrapped?: v.GenericSchema }
    const { wrapped: own } = rule as { readonly wrapped?: v.GenericSchema }
    const read = rule === MomentSchema ? field.moment() : (own ?? rule)
    const described = v.pipe(
      read,
      v.description(v.getDescription(words) ?? ''),
      v.examples([...v.getExamples(words)]),
    )
    return [name, own ? v.exactOptional(described) : described]
  })
  return v.object(Object.fromEntries(entries) as Entries)
}

/**
 * Declares the operations of a resource: `GET /api/v1/clients` with the scope `clients:read`, and with `create` also `POST` with the scope
 * `clients:write`.
 *
 * @param many several records: `clients`
 */
export function routesOf(
  many: Resource,
  { kind, idKind, about, note, representation, create }: Operations,
  store: Slice,
): readonly Route[] {
  const one = capital(kind)
  const named = { path: `/api/v1/${many}`, tag: capital(many), representation, representationName: one }
  const list: ListRoute = {
    method: 'GET',
    ...named,
    operationId: `list${capital(many)}`,
    scope: `${many}:read`,
    summary: `List ${many}`,
    description: ['The newest', many, 'of the organization, newest first.', note ?? ''].join(' ').trim(),
    about,
    idKind,
    admitAndList: (request, asked) => store.admitAndList(request, asked),
  }
  if (create === undefined) return [list]
  const scope = `${many as WritableResource}:write` as const
  const names = { operationId: `create${one}`, scope, inputName: `Create${one}Input` }
  return [list, { method: 'POST', ...named, ...names, ...create, create: (given) => store.create(given) }]
}
