import * as v from 'valibot'
import { INVALID_INPUT, refused } from '../base/errors.ts'
import { defineCall, IdSchema, newIdOf, setOf, whole } from '../base/host-input.ts'
import type { DestinationVerdict } from '../webhooks/destination.ts'
import { CHOICES } from '../webhooks/endpoint-choices.ts'
import { defineAuditedCall } from './calls.ts'
import { createHeaderSchemas } from './endpoint-headers.ts'
import { OVERLAP_MS, OverlapSchema } from './overlap.ts'

/** Returns the error message for invalid types. @param types the service's event types */
export function typesRequirement(types: readonly string[]): string {
  return `must be null, or one or more of ${types.join(', ')}, each once`
}

const secretRequirement =
  'must be at least 24 bytes, in base64 after whsec_ or as visible ASCII characters, at most 256 without white space and quotes around them'
const SecretSchema = v.pipe(
  v.string(secretRequirement),
  v.regex(/^(?!["'`])[!-~]{24,256}(?<!["'`])$/, secretRequirement),
  v.check(
    (text) => !text.startsWith('whsec_') || Buffer.from(text.slice(6), 'base64').length >= 24,
    secretRequirement,
  ),
)
/** Checks whether we may send events to a URL. */
export type JudgeUrl = (url: string) => Promise<DestinationVerdict>

/** @throws `BusinessApiError` with code `invalid_input` if the URL isn't an allowed destination */
export async function checkUrl(judge: JudgeUrl, url: string, action: string): Promise<void> {
  const verdict = await judge(url)
  // Don't include the detail. It's for operators and could reveal the internal network to customers.
  if (verdict.allowed) return
  throw refused(action, INVALID_INPUT, `url was rejected: ${verdict.reason}`, ['url'])
}

const REF = { endpointId: IdSchema }

const CHOICE_INPUTS = Object.fromEntries(
  Object.entries(CHOICES).map(([name, { input }]) => [name, v.exactOptional<v.GenericSchema>(input)]),
) as object as {
  readonly [Field in keyof typeof CHOICES]: v.ExactOptionalSchema<(typeof CHOICES)[Field]['input'], undefined>
}

/** Also accepts an entire endpoint. */
const SeenSchema = v.object({ version: whole(0, 2 ** 31 - 1) })

/** Validates the input of `list`. */
export const readList = defineCall('Cannot list webhook endpoints', {})

/** Validates the input of `get`. */
export const readGet = defineCall('Cannot show a webhook endpoint', REF)

/**
 * Defines a call that changes an endpoint and only takes its id.
 *
 * @param verb the verb for error messages, for example `pause`
 */
export function defineRef(verb: string) {
  return defineAuditedCall(`Cannot ${verb} a webhook endpoint`, REF)
}

/** Validates the input of `rotateSecret`. */
export const readRotateSecret = defineAuditedCall(
  'Cannot rotate the secret of a webhook endpoint',
  { ...REF, id: v.exactOptional(newIdOf('chg')), overlapMs: v.exactOptional(OverlapSchema, OVERLAP_MS) },
  { judgesUndefined: true },
)

/**
 * Defines the calls that take types and headers.
 *
 * @param types the service's event types. Updates may use other types, see `createEndpointUpdate`
 * @param headerPrefix the service's header prefix, such as `X-SERVICE`
 */
export function defineEndpointCalls(types: readonly string[], headerPrefix: string) {
  const { HeadersSchema, PatchSchema } = createHeaderSchemas(headerPrefix)
  const requirement = typesRequirement(types)
  return {
    readRegister: defineAuditedCall(
      'Cannot register a webhook endpoint',
      {
        id: v.exactOptional(newIdOf('we')),
        ...CHOICE_INPUTS,
        types: v.exactOptional(v.nullable(setOf((type) => types.includes(type), requirement))),
        url: CHOICES.url.input,
        secret: v.exactOptional(SecretSchema),
        headers: v.exactOptional(HeadersSchema, {}),
      },
      // `types: undefined` would mean all types.
      { judgesUndefined: true },
    ),
    readUpdate: defineAuditedCall('Cannot update a webhook endpoint', {
      ...REF,
      ...CHOICE_INPUTS,
      types: v.exactOptional(v.nullable(setOf(() => true, requirement))),
      headers: v.exactOptional(PatchSchema),
      replaces: v.exactOptional(SeenSchema),
    }),
  }
}

/** Validates the input of `update`. */
export type ReadUpdate = ReturnType<typeof defineEndpointCalls>['readUpdate']
