import assert from 'node:assert/strict'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { readOptions } from '../../lib/api/options.ts'
import type { BusinessApiOptions, BusinessApiStore } from '../../lib/index.ts'
import { buildOpenApiDocument } from '../../lib/openapi/document.ts'
import { createRoutes } from '../../lib/resources/records.ts'
import { defineService, type ServiceOptions } from '../../lib/service.ts'

// The document is generated from declarations, so no store is called and no database is needed.

// --- The parts of a document under test ---

export interface Ref {
  readonly $ref: string
}

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly format?: string
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly default?: unknown
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly examples?: readonly unknown[]
  readonly description?: string
  readonly anyOf?: readonly Schema[]
  readonly discriminator?: {
    readonly propertyName: string
    readonly mapping: Readonly<Record<string, string>>
  }
}

export interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: Schema
}

export interface Content {
  readonly 'application/json': { readonly schema: Schema; readonly example?: unknown }
}

export interface Response {
  readonly description: string
  readonly headers?: Readonly<Record<string, Ref>>
  readonly content?: Content
}

export interface Operation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description: string
  readonly 'x-required-scope'?: string
  readonly security?: readonly object[]
  readonly parameters: readonly (Ref | Parameter)[]
  readonly requestBody?: { readonly required: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, Response | Ref>>
}

export interface Document {
  readonly openapi: string
  readonly info: {
    readonly title: string
    readonly version: string
    readonly description: string
    readonly contact: object
    readonly license: object
  }
  readonly security: readonly object[]
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly pathItems: Readonly<Record<string, { readonly post: Operation }>>
    readonly securitySchemes: Readonly<Record<string, unknown>>
    readonly headers: Readonly<Record<string, Parameter>>
  }
}

export function build(options: BusinessApiOptions = {}, names: ServiceOptions = {}): Document {
  const operations = createRoutes({} as BusinessApiStore)
  return buildOpenApiDocument({ operations, ...readOptions(options, defineService(names)) }) as Document
}

export const openapi = build()

// --- Traversing a document ---

export type Node = Readonly<Record<string, unknown>>

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null
}

/** Returns all objects in the document with their paths. Examples aren't traversed because they're just values. */
export function* nodesOf(node: Node, path = '#'): Generator<readonly [string, Node]> {
  yield [path, node]
  for (const [key, value] of Object.entries(node)) {
    if (isNode(value) && key !== 'example' && key !== 'examples') yield* nodesOf(value, `${path}/${key}`)
  }
}

/** Returns all schemas, wherever they are. */
export function schemasOf(document: Document): (readonly [string, Schema])[] {
  const types = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'])
  return [...nodesOf(document as unknown as Node)].filter(([, { type }]) =>
    [type].flat().some((name) => typeof name === 'string' && types.has(name)),
  ) as (readonly [string, Schema])[]
}

export function resolve<Target extends object>(target: Target | Ref, document: Document = openapi): Target {
  if (!('$ref' in target)) return target
  let found: unknown = document
  for (const part of target.$ref.slice(2).split('/')) found = isNode(found) ? found[part] : undefined
  assert.ok(isNode(found), `nothing at ${target.$ref}`)
  return found as Target
}

export function operation(method: string, path: string, document: Document = openapi): Operation {
  const found = document.paths[path]?.[method]
  assert.ok(found, `no ${method} ${path}`)
  return found
}

export function response(from: Operation, status: string, document: Document = openapi): Response {
  const found = from.responses[status]
  assert.ok(found, `${from.operationId} says nothing of ${status}`)
  return resolve(found, document)
}

export function parameter(from: Operation, name: string): Parameter {
  const found = from.parameters.map((one) => resolve<Parameter>(one)).find((one) => one.name === name)
  assert.ok(found, `${from.operationId} has no parameter ${name}`)
  return found
}

export function operationsOf(document: Document): Operation[] {
  const inPaths = Object.values(document.paths).flatMap((methods) => Object.values(methods))
  return [...inPaths, ...Object.values(document.webhooks).map(({ post }) => post)]
}

export function dataOf(from: Operation): Schema {
  const { schema: named = {} } = response(from, '200').content?.['application/json'] ?? {}
  const data = resolve<Schema>(named as Schema | Ref).properties?.data
  assert.ok(data, `${from.operationId} answers no data`)
  return data
}

/** Returns the envelope of an event, which is a named schema. */
export function envelopeOf(type: string): Schema {
  const { schema: named } = openapi.webhooks[type]?.post.requestBody?.content['application/json'] ?? {}
  assert.ok(named?.$ref, `the envelope of ${type} has no name`)
  return resolve<Schema>(named as Ref)
}

export function schema(name: string): Schema {
  return resolve<Schema>({ $ref: `#/components/schemas/${name}` })
}

// --- Validating values against schemas ---

export const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true })
addFormats.default(ajv)
// A format only describes (JSON Schema 2020-12). The pattern of addresses says what the API accepts.
ajv.addFormat('email', true)
ajv.addVocabulary(['components', 'discriminator', 'x-go-name', 'x-ogen-name', 'x-go-type', 'x-ogen-type'])

/** Compiles a schema of the document in strict mode. Throws if a keyword is misspelled or doesn't fit the type. */
export function compile(judged: Schema): ValidateFunction {
  const refers = JSON.stringify(judged).includes('"$ref"')
  return ajv.compile(refers ? { ...judged, components: { schemas: openapi.components.schemas } } : judged)
}

export function assertFits(value: unknown, judged: Schema, where: string): void {
  const fits = compile(judged)
  assert.ok(fits(value), `${where}: ${ajv.errorsText(fits.errors)}`)
}

// --- The specification ---
