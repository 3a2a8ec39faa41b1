import type * as v from 'valibot'
import { BusinessSchema } from '../businesses.ts'
import type { Route } from '../route.ts'
import { buildHeaders } from './openapi/headers.ts'
import { buildBearerScheme, buildInfo, type InfoOptions, tags } from './openapi/info.ts'
import { buildPaths, operationParameters } from './openapi/paths.ts'
import { buildRefusals, ErrorSchema, type ResponseOptions } from './openapi/responses.ts'
import { boundByBody, createSchemas, type Schemas } from './openapi/schemas.ts'
import { buildWebhooks, envelopeSchemas, webhookParameters, webhookResponses } from './openapi/webhooks.ts'

/** What the document depends on. */
export interface OpenApiOptions extends InfoOptions, ResponseOptions {
  /** Where the API is reached, the base path included: the document's server. */
  readonly baseUrl: string | undefined
  /** The server in its place; empty for the root. */
  readonly basePath: string
}

/**
 * Describes the API and its webhooks in OpenAPI 3.1, from nothing but what the routes and events declare. Pure: the same
 * options give the same text.
 *
 * @throws `Error` for a schema with a rule that JSON Schema cannot say
 */
export function buildOpenApiDocument(options: OpenApiOptions): object {
  const schemas = nameSchemas(options)
  return {
    // 3.1.1 only words it better; 3.1.0 is the text that every tool knows.
    openapi: '3.1.0',
    info: buildInfo(options),
    servers: [{ url: options.baseUrl ?? (options.basePath || '/') }],
    tags,
    paths: buildPaths(options, schemas),
    webhooks: buildWebhooks(options.headerPrefix, schemas),
    components: {
      schemas: schemas.components,
      responses: { ...buildRefusals(options), ...webhookResponses },
      parameters: { ...operationParameters, ...webhookParameters(options.headerPrefix) },
      headers: buildHeaders(options.rateLimits),
      securitySchemes: { bearer: buildBearerScheme(options) },
    },
  }
}

/** The schemas by the names that the routes give them, a business, and the error. */
function nameSchemas({ routes, maxBodyBytes }: OpenApiOptions): Schemas {
  const items = routes.map(({ itemName, item }) => [itemName, item] as const)
  const inputs = routes.flatMap(inputOf)
  const named: Record<string, v.GenericSchema> = {
    ...Object.fromEntries([...items, ['Business', BusinessSchema] as const, ...inputs]),
    Error: ErrorSchema,
  }
  const schemas = createSchemas(named, envelopeSchemas)
  for (const [name] of inputs) boundByBody(schemas.components[name] ?? {}, maxBodyBytes)
  return schemas
}

function inputOf(route: Route): readonly (readonly [string, v.GenericSchema])[] {
  return route.method === 'POST' ? [[route.inputName, route.input]] : []
}
