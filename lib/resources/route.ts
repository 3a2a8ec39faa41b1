import * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import type { Resource, Scope, WritableResource } from '../access/scopes.ts'
import * as field from '../base/fields.ts'
import { MomentSchema } from '../base/host-input.ts'
import type { IdKind } from '../base/ids.ts'
import type { ApiCreationOutcome, Creation, PreparedCreation } from '../writes/creation.ts'
import type { WriteContext } from '../writes/write-context.ts'
import type { RecordTable } from './columns.ts'

/** An operation's declaration, used to serve it and to generate the OpenAPI document. */
interface Declaration {
  readonly path: string
  readonly operationId: string
  readonly tag: string
  /** The scope that a key must have (see section 4 of the spec). */
  readonly scope: Scope
  readonly summary: string
  readonly description: string
  /** Schema for a record in the response. */
  readonly representation: v.GenericSchema
  /** The schema's name in the OpenAPI document. */
  readonly representationName: string
}

/** A `GET` operation that returns a page of records. */
export interface ListRoute extends Declaration {
  readonly method: 'GET'
  /** Describes the records. Used as the tag's description. */
  readonly about: string
  /** The kind of record id, used to validate `before`. */
  readonly idKind: IdKind
  /** Reads a page for the key in `request`. */
  admitAndList(request: AdmissionRequest, asked: PageRequest): Promise<AdmittedPage<unknown>>
}

/** A `POST` operation that creates a record. */
export interface CreateRoute extends Declaration {
  readonly method: 'POST'
  readonly input: v.GenericSchema
  /** The input schema's name in the OpenAPI document. */
  readonly inputName: string
  /** Builds the record, its events and the response from validated input, without writing anything. */
  prepare(input: unknown, context: WriteContext): PreparedCreation
  create(creation: Creation<unknown>): Promise<ApiCreationOutcome>
}

/** An API operation. */
export type Route = ListRoute | CreateRoute

/** The slice methods that operations call. */
export type Slice = Pick<ListRoute, 'admitAndList'> & Pick<CreateRoute, 'create'>

/** A resource's operations, as declared in its file. All names are derived from the resource name. */
export interface Operations extends Pick<RecordTable, 'kind' | 'idKind'> {
  /** Describes the records. Used as the tag's description. */
  readonly about: string
  /** An additional sentence for the list's description. */
  readonly note?: string
  readonly representation: v.GenericSchema
  /** Absent if the API can't create these records. */
  readonly create?: Pick<CreateRoute, 'summary' | 'description' | 'input' | 'prepare'>
}

/** Capitalizes a name, for example `Clients`. */
export function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}

/**
 * Creates a create operation's input schema from the fields of the host's own calls, with the record's
 * descriptions and examples.
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
 * Creates a resource's operations, for example `GET /api/v1/clients` with the scope `clients:read`, and if `create` is
 * defined, `POST` with the scope `clients:write`.
 *
 * @param many the plural name, for example `clients`
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
    description: [`Returns the organization's ${many}, newest first.`, note ?? ''].join(' ').trim(),
    about,
    idKind,
    admitAndList: (request, asked) => store.admitAndList(request, asked),
  }
  if (create === undefined) return [list]
  const scope = `${many as WritableResource}:write` as const
  const names = { operationId: `create${one}`, scope, inputName: `Create${one}Input` }
  return [list, { method: 'POST', ...named, ...names, ...create, create: (given) => store.create(given) }]
}
