import { EXAMPLE_TIME } from '../base/fields.ts'
import { LIMIT_DEFAULT, LIMIT_MAX } from '../http/list-query.ts'
import type { Route as OwnRoute } from '../resources/own-routes.ts'
import type { Route } from '../resources/route.ts'
import { IDEMPOTENCY_KEY_MAX } from '../writes/idempotency.ts'
import { successHeaders } from './headers.ts'
import { type ResponseOptions, refusalRefs } from './responses.ts'
import { type Schemas, schemaRef } from './schemas.ts'

/** Parameter schemas. Go generators don't support a union of two strings, so we make them use a plain string. */
export const parameterSchemas: Readonly<Record<string, object>> = {
  ChangesSince: {
    description: 'An RFC 3339 timestamp or a `Sync-Token`.',
    anyOf: [
      { type: 'string', format: 'date-time', maxLength: 64 },
      { type: 'string', minLength: 1, maxLength: 1024, pattern: '^[0-9A-Za-z_-]+$' },
    ],
    'x-go-type': 'string',
    'x-ogen-type': 'string',
  },
}

/** The operations' `components.parameters` (see section 4 of the spec). */
export const operationParameters = {
  Limit: {
    name: 'limit',
    in: 'query',
    description: 'Maximum number of records to return.',
    schema: { type: 'integer', format: 'int32', minimum: 1, maximum: LIMIT_MAX, default: LIMIT_DEFAULT },
    example: LIMIT_DEFAULT,
  },
  UpdatedSince: {
    name: 'updatedSince',
    in: 'query',
    description:
      'Returns only records created or changed since then, oldest change first. Either a `Sync-Token` from an earlier response of ' +
      "the same list, or an ISO 8601 timestamp with a time zone. Can't be combined with `before`.",
    schema: schemaRef('ChangesSince'),
    example: EXAMPLE_TIME,
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Makes the request safe to retry: for 7 days, a request with the same key and body returns the first response and creates ' +
      'nothing. Visible ASCII characters, for example `form-submission-8f14e45f`. Each organization and operation has its own keys.',
    // We don't include an example, since tools that use every example would send different bodies with the same key.
    schema: { type: 'string', minLength: 1, maxLength: IDEMPOTENCY_KEY_MAX, pattern: '^[!-~]+$' },
  },
} as const

/** Returns `paths` with all operations under /api/v1, in order. */
export function buildPaths(
  { operations, rateLimits }: ResponseOptions,
  schemas: Schemas,
): Record<string, Record<string, object>> {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of operations) {
    const operation = buildOperation(route, schemas, successHeaders(route.method, rateLimits))
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation }
  }
  return paths
}

function buildOperation(route: Route, schemas: Schemas, headers: object): object {
  const isList = route.method === 'GET'
  return describeOperation(route, {
    more: isList ? READING : '',
    parameters: isList
      ? [
          parameterRef('Limit'),
          beforeParameter(OLDER, `^${route.idKind}_[0-9A-Za-z_-]{1,59}$`),
          parameterRef('UpdatedSince'),
        ]
      : [parameterRef('IdempotencyKey')],
    ...(isList ? {} : { body: jsonContent(route.inputName, schemas.exampleOf(route.inputName)) }),
    success: { ...buildSuccess(route, schemas), headers },
    errors: refusalRefs({ query: isList, body: !isList, key: !isList }),
  })
}

interface OperationParts {
  /** Appended to the description. */
  readonly more?: string
  readonly parameters: readonly object[]
  /** The request body's content. None by default. */
  readonly body?: object
  readonly success: object
  /** All other responses, by status. */
  readonly errors: object
}

/** Describes an operation, including the scope it requires. */
export function describeOperation(
  { operationId, tag, summary, description = `${summary}.`, scope }: About,
  { more = '', parameters, body, success, errors }: OperationParts,
): object {
  return {
    operationId,
    tags: [tag],
    summary,
    description: `${description}${more}\n\nRequired scope: \`${scope}\`.`,
    'x-required-scope': scope,
    parameters,
    ...(body && { requestBody: { required: true, content: body } }),
    responses: { 200: success, ...errors },
  }
}

type About = Pick<OwnRoute, 'operationId' | 'tag' | 'summary' | 'description' | 'scope'>

/** Added to the description for tools that don't read anything else. */
const READING =
  ' To get the next page, follow the `Link` header until a response has none. To keep a copy, pass the `Sync-Token` of the previous ' +
  "response as `updatedSince`. Lists can't be filtered by status or name."

/** Returns a reference to one of the {@link operationParameters}. */
export function parameterRef(name: keyof typeof operationParameters): object {
  return { $ref: `#/components/parameters/${name}` }
}

const OLDER =
  "Returns records older than the one with this ID, which doesn't have to exist. Usually taken from the `Link` header of the previous " +
  "response. Can't be combined with `updatedSince`."

/** Returns the `before` parameter. `pattern` must not contain \w, which isn't limited to ASCII in some languages. */
export function beforeParameter(description: string, pattern: string): object {
  // We don't include an example, since tools that use every example would send it along with `updatedSince`.
  return { name: 'before', in: 'query', description, schema: { type: 'string', maxLength: 64, pattern } }
}

/** Returns the content for a body that has a named schema. */
export function jsonContent(name: string, example: unknown): object {
  return {
    'application/json': { schema: schemaRef(name), ...(example === undefined ? {} : { example }) },
  }
}

/** Returns the schema name for a successful response, for example `ClientList` or `ClientResponse`. */
export function answerName({ method, representationName }: Route): string {
  return representationName + (method === 'GET' ? 'List' : 'Response')
}

function buildSuccess(route: Route, { exampleOf }: Schemas): object {
  const name = answerName(route)
  return {
    description:
      route.method === 'GET'
        ? 'Up to `limit` records, newest first; with `updatedSince`, oldest change first. The list may be empty.'
        : 'The created record. If the Idempotency-Key was used before, the record from the first request.',
    content: jsonContent(name, exampleOf(name)),
  }
}
