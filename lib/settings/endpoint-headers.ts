import * as v from 'valibot'
import { LIMIT_REACHED, refused } from '../base/errors.ts'
import { isPlain } from '../base/options.ts'

/** An endpoint's custom header values by name. */
export type HeaderValues = Readonly<Record<string, string>>

/** Header changes by name. `null` removes a header. If the patch itself is `null`, all headers are removed. */
export type HeaderPatch = Readonly<Record<string, string | null>> | null

const HEADERS_MAX = 20
/** Maximum combined size of names and values, in bytes. Each header adds four for ": " and the line break. */
const HEADER_BYTES_MAX = 8192
const VALUE_MAX = 4096

/**
 * Headers that we set ourselves or that are connection-specific. undici rejects requests with `Expect`, `Keep-Alive` or
 * `Upgrade`, so every attempt would fail.
 */
const RESERVED = [
  'Connection',
  'Content-Length',
  'Content-Type',
  'Expect',
  'Host',
  'Keep-Alive',
  'Proxy-Connection',
  'TE',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
  'User-Agent',
  'Webhook-Id',
  'Webhook-Signature',
  'Webhook-Timestamp',
]

/** Maximum header name length in characters. No real header is longer. */
const NAME_MAX = 100
/** A token (RFC 9110) */
const NAME = /^[\w!#$%&'*+.^`|~-]{1,100}$/
/** Visible ASCII characters. Spaces are allowed in between. */
const VALUE = /^[!-~]([ -~]*[!-~])?$/

// --- Inputs ---

/**
 * Creates the schemas for a new endpoint's headers and for a patch.
 *
 * @param headerPrefix the service's header prefix, such as `X-SERVICE`
 */
export function createHeaderSchemas(headerPrefix: string): {
  readonly HeadersSchema: v.GenericSchema<HeaderValues>
  readonly PatchSchema: v.GenericSchema<HeaderPatch>
} {
  const reserved = new Set(RESERVED.map((name) => name.toLowerCase()))
  const ownPrefix = `${headerPrefix.toLowerCase()}-`

  /** Returns the first violated rule. Doesn't include any header values, since they are secrets. */
  function findFault(given: unknown, isPatch: boolean): string | null {
    if (!isPlain(given)) return 'must be an object of header names and values'
    const entries = Object.entries(given)
    const set = entries.filter(([, value]) => !(isPatch && value === null))
    // Allow removing as many headers as an endpoint can have.
    if (set.length > HEADERS_MAX || entries.length > HEADERS_MAX * 2)
      return `must have at most ${HEADERS_MAX} headers`
    const names = new Set<string>()
    for (const [name, value] of entries) {
      const shown = name.slice(0, NAME_MAX)
      const fault = findNameFault(name, names) ?? (isPatch && value === null ? null : findValueFault(value))
      if (fault !== null) return `${fault}: '${shown}'`
      names.add(name.toLowerCase())
    }
    return null
  }

  function findNameFault(name: string, earlier: ReadonlySet<string>): string | null {
    const lower = name.toLowerCase()
    if (!NAME.test(name)) return `must have header names of at most ${NAME_MAX} characters`
    if (earlier.has(lower)) return 'must have each name once, in any case of its letters'
    if (reserved.has(lower) || lower.startsWith(ownPrefix))
      return 'must not have a header that the service sets'
    return null
  }

  // We can't use valibot's record because it drops names such as `constructor`.
  const HeadersSchema = v.pipe(
    v.custom<HeaderValues>(
      (given) => findFault(given, false) === null,
      ({ input }) => findFault(input, false) ?? '',
    ),
    v.transform(copy),
  )
  const PatchSchema = v.pipe(
    v.custom<Readonly<Record<string, string | null>>>(
      (given) => findFault(given, true) === null,
      ({ input }) => findFault(input, true) ?? '',
    ),
    v.transform(copy),
  )
  return { HeadersSchema, PatchSchema: v.nullable(PatchSchema) }
}

function findValueFault(value: unknown): string | null {
  if (typeof value !== 'string') return 'must have strings as values'
  if (value.length > VALUE_MAX) return `must have values of at most ${VALUE_MAX} characters`
  return VALUE.test(value) ? null : 'must have values of visible ASCII characters, with spaces only inside'
}

function copy<Value>(headers: Readonly<Record<string, Value>>): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(headers))
}

// --- Patches ---

/** Applies a patch to headers. A string sets a header and `null` removes it. Names are case-insensitive. */
export function patchHeaders(present: HeaderValues, patch: HeaderPatch): HeaderValues {
  if (patch === null) return {}
  const patched = new Set(Object.keys(patch).map((name) => name.toLowerCase()))
  const kept = Object.entries(present).filter(([name]) => !patched.has(name.toLowerCase()))
  const set = Object.entries(patch).flatMap(([name, value]) =>
    value === null ? [] : [[name, value] as const],
  )
  return Object.fromEntries([...kept, ...set])
}

/**
 * Checks the number and total size of an endpoint's headers.
 *
 * @param action how the error message starts, for example `Cannot update a webhook endpoint`
 * @throws `BusinessApiError` with code `limit_reached`
 */
export function checkHeaderBounds(headers: HeaderValues, action: string): void {
  const all = Object.entries(headers)
  if (all.length > HEADERS_MAX) {
    throw refused(
      action,
      LIMIT_REACHED,
      `the endpoint would have ${all.length} headers, more than ${HEADERS_MAX}: remove some`,
    )
  }
  const bytes = all.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0)
  if (bytes <= HEADER_BYTES_MAX) return
  throw refused(
    action,
    LIMIT_REACHED,
    `the headers of the endpoint would take ${bytes} bytes, more than ${HEADER_BYTES_MAX}: remove some, or shorten their values`,
  )
}
