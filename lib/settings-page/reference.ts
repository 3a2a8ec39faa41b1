/** The fields of an OpenAPI schema that the reference shows. */
export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly examples?: readonly unknown[]
}

interface Media {
  readonly schema?: Schema
  readonly example?: unknown
}

/** A parameter of an operation. */
export interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema?: Schema
}

/** A response of an operation. */
export interface ReferenceResponse {
  readonly description?: string
  readonly content?: Readonly<Record<string, Media>>
}

/** An API operation or a webhook. */
export interface Operation {
  readonly operationId: string
  /** Upper case; `null` for a webhook. */
  readonly method: string | null
  /** The path or the event type. */
  readonly path: string
  readonly summary: string
  readonly description: string
  readonly scope: string | null
  readonly parameters: readonly Parameter[]
  readonly body: Media | null
  readonly answers: readonly (readonly [status: string, answer: ReferenceResponse])[]
}

/** The API's OpenAPI document, from which the reference and code samples are generated. */
export interface Reference {
  /** The OpenAPI document as JSON text. */
  readonly text: string
  /** The API's URL without a trailing slash. */
  readonly server: string
  readonly description: string
  readonly operations: readonly Operation[]
  readonly webhooks: readonly Operation[]
  /** Resolves a `$ref` within the document. */
  resolve(schema: Schema): Schema
}

/** Creates a function that reads the API's document on first use. Returns `null` without an API. */
export function createReference(api: { describe(): object } | undefined): (() => Reference) | null {
  if (api === undefined) return null
  let reference: Reference | undefined
  return () => {
    reference ??= readReference(api.describe() as Document)
    return reference
  }
}

interface RawOperation {
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly 'x-required-scope'?: string
  readonly parameters?: readonly (Parameter & Schema)[]
  readonly requestBody?: { readonly content?: Readonly<Record<string, Media>> }
  readonly responses?: Readonly<Record<string, ReferenceResponse & Schema>>
}

interface Document {
  /** The tag `Guide` is the introduction: authentication, pagination, errors, rate limits and webhooks. */
  readonly tags?: readonly { readonly name?: string; readonly description?: string }[]
  readonly servers?: readonly { readonly url?: string }[]
  readonly paths?: Readonly<Record<string, Readonly<Record<string, RawOperation>>>>
  readonly webhooks?: Readonly<Record<string, Readonly<Record<string, RawOperation>>>>
}

function readReference(document: Document): Reference {
  const url = document.servers?.[0]?.url?.replace(/\/+$/, '') ?? ''

  function follow<Item extends Schema>(item: Item): Item {
    if (item.$ref === undefined) return item
    const path = item.$ref.replace(/^#\//, '').split('/')
    const found = path.reduce<unknown>((at, name) => Object(at)[name], document)
    return Object(found) as Item
  }

  function read(all: Document['paths'] = {}, isWebhook: boolean): readonly Operation[] {
    return Object.entries(all).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, raw]) => ({
        operationId: raw.operationId ?? '',
        method: isWebhook ? null : method.toUpperCase(),
        path,
        summary: raw.summary ?? '',
        description: raw.description ?? '',
        scope: raw['x-required-scope'] ?? null,
        parameters: raw.parameters?.map(follow) ?? [],
        body: raw.requestBody?.content?.['application/json'] ?? null,
        // As text, because objects have integers such as 410 before 2XX.
        answers: Object.entries(raw.responses ?? {})
          .map(([status, answer]) => [status, follow(answer)] as const)
          .toSorted(([one], [other]) => (one < other ? -1 : 1)),
      })),
    )
  }

  return {
    text: JSON.stringify(document, null, 2),
    server: url.startsWith('http') ? url : `https://api.example.com${url}`,
    description: document.tags?.find(({ name }) => name === 'Guide')?.description ?? '',
    operations: read(document.paths, false),
    webhooks: read(document.webhooks, true),
    resolve: follow,
  }
}
