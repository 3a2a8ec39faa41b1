import * as v from 'valibot'
import { URL_MAX_LENGTH } from '../destination.ts'
import { EVENT_TYPES } from '../events.ts'
import * as field from '../fields.ts'
import { IdSchema, OrganizationIdSchema } from '../input.ts'
import { ActorSchema } from './audit.ts'
import { endpointHeaders } from './endpoint-headers.ts'
import { OverlapSchema } from './overlap.ts'

const typesRequirement = `must be null, or one or more of ${EVENT_TYPES.join(', ')}, each once`

const TypesSchema = v.nullable(
  v.pipe(
    v.array(v.picklist(EVENT_TYPES, typesRequirement), typesRequirement),
    v.minLength(1, typesRequirement),
    v.check((types) => new Set(types).size === types.length, typesRequirement),
  ),
)
const UrlSchema = v.pipe(
  field.text(1, URL_MAX_LENGTH),
  // A parser of URLs takes it out without a word: the log would show another text than was meant.
  v.check((url) => !/[\s\p{Cc}]/u.test(url), 'must not contain white space or control characters'),
)
const DescriptionSchema = field.text(0, 200)

/** What every call about one endpoint takes. */
export const EndpointRefSchema = v.object({
  organizationId: OrganizationIdSchema,
  endpointId: IdSchema,
  actor: ActorSchema,
})
/** What `rotateSecret` takes. */
export const RotateSecretSchema = v.object({ ...EndpointRefSchema.entries, overlapMs: OverlapSchema })

/**
 * What `register` and `update` take.
 *
 * @param headerPrefix of the service's own headers: `X-SERVICE`
 */
export function createEndpointSchemas(headerPrefix: string) {
  const HeadersSchema = endpointHeaders(headerPrefix)
  return {
    RegisterSchema: v.object({
      organizationId: OrganizationIdSchema,
      url: UrlSchema,
      types: v.optional(TypesSchema, null),
      description: v.optional(DescriptionSchema, ''),
      headers: v.optional(HeadersSchema, {}),
      actor: ActorSchema,
    }),
    UpdateSchema: v.object({
      ...EndpointRefSchema.entries,
      url: v.exactOptional(UrlSchema),
      types: v.exactOptional(TypesSchema),
      description: v.exactOptional(DescriptionSchema),
      headers: v.exactOptional(HeadersSchema),
    }),
  }
}
