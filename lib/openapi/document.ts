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

/** Options for the document. */
export interface OpenApiOptions extends InfoOptions, ResponseOptions {
  /** The server URL if there's no `baseUrl`. Empty for the root. */
  readonly basePath: string
}

/**
 * Generates the OpenAPI 3.1 document for the API and its webhooks from the declared operations and events. This is a
 * pure function, so the same options always produce the same document.
 *
 * @throws `Error` if a schema has a rule that JSON Schema can't express
 */
export function buildOpenApiDocument(options: OpenApiOptions): object {
  const schemas = nameSchemas(options)
  const refusals = buildRefusals(options)
  return {
    // 3.1.1 only improves the wording, and every tool supports 3.1.0.
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

/** Names every schema that generators create a type for: records, inputs, responses, events and the error. */
function nameSchemas({ operations, maxBodyBytes, events }: OpenApiOptions): Schemas {
  const inputs = operations.flatMap((route): readonly NameAndSchema[] =>
    route.method === 'POST' ? [[route.inputName, { schema: route.input }]] : [],
  )
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

/** Go generators (oapi-codegen, ogen) use the name `Client` for the API client. */
const GO_NAME_OF_CLIENT = { 'x-go-name': 'ClientRecord', 'x-ogen-name': 'ClientRecord' }

type NameAndSchema = readonly [string, NamedSchema]

function answerOf(route: Route): NameAndSchema {
  const { method, representation } = route
  if (method === 'GET') {
    const data = v.pipe(v.array(representation), v.maxLength(LIMIT_MAX))
    return [answerName(route), { schema: v.object({ data }) }]
  }
  // The operation itself builds the example response from the example input, so they always match.
  const created = route.prepare(v.parse(route.input, exampleOf(route.input)), EXAMPLE_CONTEXT)
  return [
    answerName(route),
    { schema: v.object({ data: representation }), example: { data: created.representation } },
  ]
}
