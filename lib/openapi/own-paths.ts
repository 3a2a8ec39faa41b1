import type { JsonSchema } from '@valibot/to-json-schema'
import { Refusal } from '../http/refusal.ts'
import {
  API_PATH,
  isIdempotent,
  paramsOf,
  partsOf,
  type Route,
  type RouteOwner,
} from '../resources/own-routes.ts'
import { headerRefs, rateLimitNames } from './headers.ts'
import { answerWith, type ResponseOptions, refusalRefs } from './responses.ts'
import { describeSchema, type JsonValue, relocate, schemaRef } from './schemas.ts'

/** Everything that the description of a host's own routes depends on. */
export type OwnOptions = Pick<ResponseOptions, 'rateLimits'> & Pick<RouteOwner, 'routes'>

/** The names of a route's schemas in the document: `CreateBookingInput` and `CreateBookingResponse`. */
function nameOf({ operationId }: Route, part: 'Input' | 'Response'): string {
  return operationId.charAt(0).toUpperCase() + operationId.slice(1) + part
}

/** Describes a schema of a route. @throws `TypeError` for one without a counterpart in JSON Schema */
function describe(route: Route, part: 'query' | 'body' | 'response'): JsonSchema {
  const given = route[part]
  if (given === undefined) return {}
  const { schema, jsonSchema } = partsOf(given)
  const side = part === 'response' ? 'output' : 'input'
  return describeSchema(schema, side, jsonSchema, `'${part}' of route ${route.operationId}`)
}

/** Names the bodies and answers of own routes, for `components.schemas`. */
export function ownComponents({ routes }: OwnOptions): Record<string, JsonSchema> {
  const all = routes.flatMap((route): [string, JsonSchema][] => [
    ...(route.body ? [[nameOf(route, 'Input'), describe(route, 'body')] as [string, JsonSchema]] : []),
    [nameOf(route, 'Response'), describe(route, 'response')],
  ])
  return Object.fromEntries(all.map(([name, schema]) => [name, relocate(schema, name)]))
}

/** The part of `paths` for own routes, in their order. */
export function ownPaths(
  options: OwnOptions,
  common: Readonly<Record<string, object>>,
): Record<string, object> {
  const paths: Record<string, object> = {}
  for (const route of options.routes) {
    const path = API_PATH + route.path
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: buildOperation(route, options, common) }
  }
  return paths
}

function buildOperation(
  route: Route,
  { rateLimits }: OwnOptions,
  common: Readonly<Record<string, object>>,
): object {
  const { operationId, tag, summary, description = `${summary}.`, scope, method, paged, errors = {} } = route
  const refs = refusalRefs(method === 'GET' ? 'GET' : 'POST')
  const error = ([status, text]: [string, string]) => {
    const ref = refs[status]?.$ref.split('/').at(-1) ?? ''
    const other: string | undefined = Reflect.get(common[ref] ?? {}, 'description')
    return [
      status,
      answerWith(rateLimits)(new Refusal(Number(status), text), other ? `${text} Or: ${other}` : text),
    ]
  }
  const headers = [
    ...['X-Request-Id', ...rateLimitNames(rateLimits)],
    ...(paged ? ['Link'] : []),
    ...(isIdempotent(route) ? ['Idempotent-Replayed'] : []),
  ]
  return {
    operationId,
    tags: [tag],
    summary,
    description: `${description}\n\nRequired scope: \`${scope}\`.`,
    'x-required-scope': scope,
    parameters: parametersOf(route),
    ...(route.body
      ? { requestBody: { required: true, content: contentOf(route, 'Input', describe(route, 'body')) } }
      : {}),
    responses: {
      200: {
        description: 'The answer.',
        headers: headerRefs(headers),
        content: contentOf(route, 'Response', describe(route, 'response')),
      },
      ...refs,
      ...Object.fromEntries(Object.entries(errors).map(error)),
    },
  }
}

function contentOf(route: Route, part: 'Input' | 'Response', schema: JsonSchema): object {
  const example = exampleOfJson(schema)
  return {
    'application/json': {
      schema: schemaRef(nameOf(route, part)),
      ...(example === undefined ? {} : { example }),
    },
  }
}

function parametersOf(route: Route): readonly object[] {
  const { properties = {}, required = [] } = describe(route, 'query')
  const ref = (name: string) => ({ $ref: `#/components/parameters/${name}` })
  return [
    ...paramsOf(route.path).map((name) => ({
      name,
      in: 'path',
      required: true,
      description: `The \`${name}\` of the path.`,
      schema: { type: 'string', maxLength: 256, pattern: '^[0-9A-Za-z_.-]+$' },
    })),
    ...Object.entries(properties).map(([name, property]) => {
      const { description = `The \`${name}\` of the query.`, ...schema } = Object(property)
      return { name, in: 'query', required: required.includes(name), description, schema }
    }),
    ...(route.paged ? [ref('Limit'), beforeParameter(route.paged)] : []),
    ...(isIdempotent(route) ? [ref('IdempotencyKey')] : []),
  ]
}

function beforeParameter({ source }: RegExp): object {
  return {
    name: 'before',
    in: 'query',
    description:
      'Gives the records behind the one with this id. Best left to the `Link` of each answer, which names the next page.',
    schema: { type: 'string', maxLength: 64, pattern: source },
  }
}

/** Makes an example of the examples of a schema's parts; undefined if one of them has none. */
function exampleOfJson(given: unknown): JsonValue | undefined {
  const {
    examples,
    example,
    default: byDefault,
    const: only,
    enum: all,
    properties,
    items,
    required = [],
  } = Object(given)
  const found = examples?.[0] ?? example ?? only ?? all?.[0] ?? byDefault
  if (found !== undefined) return found
  if (items) {
    const item = exampleOfJson(items)
    return item === undefined ? undefined : [item]
  }
  if (!properties) return undefined
  const entries = Object.entries(properties).map(
    ([name, property]) => [name, exampleOfJson(property)] as const,
  )
  if (entries.some(([name, value]) => value === undefined && required.includes(name))) return undefined
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as JsonValue
}
