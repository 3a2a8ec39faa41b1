import type { JsonSchema } from '@valibot/to-json-schema'
import type * as v from 'valibot'
import { readListQuery } from '../http/list-query.ts'
import { Refusal } from '../http/refusal.ts'
import { exampleOf } from '../resources/example-data.ts'
import { API_PATH, isIdempotent, paramsOf, type Route, type RouteOwner } from '../resources/own-routes.ts'
import { capital } from '../resources/route.ts'
import { headerRefs, rateLimitNames } from './headers.ts'
import { beforeParameter, describeOperation, jsonContent, parameterRef } from './paths.ts'
import { answerWith, type ResponseOptions, refusalRefs, responseRef } from './responses.ts'
import { describeSchema, relocate } from './schemas.ts'

/** Options that affect how the host's routes are described. */
export type OwnOptions = Pick<ResponseOptions, 'rateLimits'> & Pick<RouteOwner, 'routes'>

/**
 * Suffixes for a route's schema names, for example `CreateBookingInput`. We don't use `Response` because oapi-codegen
 * already generates a type like `CreateBookingResponse` for each operation.
 */
const PARTS = { query: 'Query', body: 'Input', response: 'Result' } as const
type Part = keyof typeof PARTS

function nameOf({ operationId }: Route, part: Part): string {
  return capital(operationId) + PARTS[part]
}

/** Converts one of a route's schemas to JSON Schema. @throws `TypeError` if JSON Schema can't express it */
function describe(route: Route, part: Part): JsonSchema {
  const given = route[part]
  if (given === undefined) return {}
  const side = part === 'response' ? 'output' : 'input'
  const schema = describeSchema(given, side, `'${part}' of route ${route.operationId}`)
  if (part === 'query' && !schema.properties)
    throw new TypeError(
      `Cannot describe 'query' of route ${route.operationId} because it is no object with properties`,
    )
  return relocate(schema, nameOf(route, part))
}

/** Returns `components.schemas` for the host's routes. Queries only need an entry if they have definitions. */
export function ownComponents({ routes }: OwnOptions): Record<string, JsonSchema> {
  const components = routes.flatMap((route) =>
    (Object.keys(PARTS) as Part[]).flatMap((part) => {
      const schema = describe(route, part)
      const isNamed = part === 'query' ? '$defs' in schema : route[part] !== undefined
      return isNamed ? [[nameOf(route, part), schema]] : []
    }),
  )
  return Object.fromEntries(components)
}

/** Returns the host's routes for `paths`, in order. */
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
  const isKeyed = isIdempotent(route)
  const refs = refusalRefs({
    query: route.query !== undefined || route.paged !== undefined,
    body: route.body !== undefined,
    key: isKeyed,
  })
  // We always validate an Idempotency-Key, and reject it if the route doesn't support it.
  if (route.method !== 'GET') refs[422] ??= responseRef('InvalidInput')
  const error = ([status, text]: [string, string]) => {
    const ref = refs[status]?.$ref.split('/').at(-1) ?? ''
    const other: string | undefined = Reflect.get(common[ref] ?? {}, 'description')
    const description = other ? `${text} Or: ${other}` : text
    return [status, answerWith(rateLimits)(new Refusal(Number(status), text), description)]
  }
  const headers = [
    ...['X-Request-Id', ...rateLimitNames(rateLimits)],
    ...(route.paged ? ['Link'] : []),
    ...(isKeyed ? ['Idempotent-Replayed'] : []),
  ]
  return describeOperation(route, {
    parameters: parametersOf(route),
    ...(route.body && { body: contentOf(route, 'body') }),
    success: {
      description: 'The response.',
      headers: headerRefs(headers),
      content: contentOf(route, 'response'),
    },
    errors: { ...refs, ...Object.fromEntries(Object.entries(route.errors ?? {}).map(error)) },
  })
}

function contentOf(route: Route, part: Part): object {
  const { vendor } = route[part]?.['~standard'] ?? {}
  const made = vendor === 'valibot' ? tryExampleOf(route[part] as never) : undefined
  return jsonContent(nameOf(route, part), made ?? describe(route, part).examples?.[0])
}

function tryExampleOf(schema: v.GenericSchema): unknown {
  try {
    return exampleOf(schema)
  } catch {
    // Part of the schema doesn't have an example, so we omit the whole example.
    return undefined
  }
}

const BEHIND =
  'Returns the records after the one with this ID. Usually taken from the `Link` header of the previous response.'

function parametersOf(route: Route): readonly object[] {
  const { properties = {}, required = [] } = describe(route, 'query')
  for (const name of Object.keys(properties)) {
    if (route.paged && readListQuery(`${name}=%00`, route.paged) instanceof Refusal)
      throw new TypeError(
        `Cannot use route ${route.operationId} because its query has '${name}', which every list reads or rejects`,
      )
  }
  return [
    ...paramsOf(route.path).map((name) => ({
      name,
      in: 'path',
      required: true,
      description: `Path parameter \`${name}\`.`,
      schema: { type: 'string', maxLength: 256, pattern: '^[0-9A-Za-z_.-]+$' },
    })),
    ...Object.entries(properties).map(([name, property]) => {
      const { description = `Query parameter \`${name}\`.`, ...schema } = Object(property)
      return { name, in: 'query', required: required.includes(name), description, schema }
    }),
    ...(route.paged ? [parameterRef('Limit'), beforeParameter(BEHIND, route.paged.source)] : []),
    ...(isIdempotent(route) ? [parameterRef('IdempotencyKey')] : []),
  ]
}
