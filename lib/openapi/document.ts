import * as v from 'valibot'
import { LIMIT_MAX } from '../http/list-query.ts'
import { BusinessSchema } from '../resources/businesses.ts'
import { EXAMPLE_CONTEXT, exampleOf } from '../resources/example-data.ts'
import type { Route } from '../resources/route.ts'
import { buildHeaders } from './headers.ts'
import { buildBearerScheme, buildInfo, buildTags, type InfoOptions } from './info.ts'
import { ownComponents, ownPaths } from './own-paths.ts'
import { answerName, buildPaths, operationParameters, parameterSchemas } from './paths.ts'
import { buildRefusals, ERROR_NAME, ErrorSchema, type ResponseOptions } from './responses.ts'
import { boundByBody, createSchemas, type NamedSchema, type Schemas } from './schemas.ts'
import {
  buildAnyWebhook,
  buildEventComponents,
  buildWebhookEvent,
  buildWebhooks,
  WEBHOOK_EVENT_NAME,
  webhookParameters,
  webhookResponses,
} from './webhooks.ts'

/** Everything that the document depends on. */
export interface OpenApiOptions extends InfoOptions, ResponseOptions {
  /** The server of a document without `baseUrl`; empty for the root. */
  readonly basePath: string
}

/**
 * Describes the API and its webhooks in OpenAPI 3.1, from the declarations of the operations and events alone. Pure: the same
 * options give the same text.
 *
 * @throws `Error` for a schema with a rule that JSON Schema cannot say
 */
export function buildOpenApiDocument(options: OpenApiOptions): object {
  const schemas = nameSchemas(options)
  const refusals = buildRefusals(options)
  return {
    // 3.1.1 only has better words; every tool knows 3.1.0.
    openapi: '3.1.0',
    info: buildInfo(options),
    servers: [{ url: options.baseUrl ?? (options.basePath || '/') }],
    security: [{ bearer: [] }],
    tags: buildTags(options, schemas),
    paths: { ...buildPaths(options, schemas), ...ownPaths(options, refusals) },
    webhooks: buildWebhooks(options, schemas),
    components: {
      schemas: {
        ...schemas.components,
        ...ownComponents(options),
        ...parameterSchemas,
        [WEBHOOK_EVENT_NAME]: buildWebhookEvent(options),
      },
      responses: { ...refusals, ...webhookResponses },
      parameters: { ...operationParameters, ...webhookParameters(options.headerPrefix) },
      headers: buildHeaders(options.rateLimits, options.baseUrl),
      pathItems: { [WEBHOOK_EVENT_NAME]: { post: buildAnyWebhook(schemas) } },
      securitySchemes: { bearer: buildBearerScheme(options) },
    },
  }
}

/** Names every schema that a generator makes a type of: records, inputs, answers, events and the error. */
function nameSchemas({ operations, maxBodyBytes, events }: OpenApiOptions): Schemas {
  const inputs = operations.flatMap(inputOf)
  const schemas = createSchemas({
    ...Object.fromEntries(
      operations.map(({ representationName, representation }) => [
        representationName,
        { schema: representation },
      ]),
    ),
    Business: { schema: BusinessSchema },
    ...Object.fromEntries([...operations.map(answerOf), ...inputs]),
    ...buildEventComponents({ events }),
    [ERROR_NAME]: { schema: ErrorSchema },
  })
  for (const [name] of inputs) boundByBody(schemas.components[name] ?? {}, maxBodyBytes)
  Object.assign(schemas.components.Client ?? {}, GO_NAME_OF_CLIENT)
  return schemas
}

/** `Client` is what generators of Go (oapi-codegen, ogen) call the client of the API. */
const GO_NAME_OF_CLIENT = { 'x-go-name': 'ClientRecord', 'x-ogen-name': 'ClientRecord' }

type NameAndSchema = readonly [string, NamedSchema]

function answerOf(route: Route): NameAndSchema {
  const { method, representation } = route
  if (method === 'GET') {
    const data = v.pipe(v.array(representation), v.maxLength(LIMIT_MAX))
    return [answerName(route), { schema: v.object({ data }) }]
  }
  // The operation builds the answer to the example of its input, so that example and answer cannot differ.
  const created = route.prepare(v.parse(route.input, exampleOf(route.input)), EXAMPLE_CONTEXT)
  return [
    answerName(route),
    { schema: v.object({ data: representation }), example: { data: created.representation } },
  ]
}

function inputOf(route: Route): readonly NameAndSchema[] {
  return route.method === 'POST' ? [[route.inputName, { schema: route.input }]] : []
}
