import type { ApiRequest } from './message.ts'
import { refusals } from './refusal.ts'

/**
 * Reads a JSON body (see section 4 of the spec).
 *
 * @throws `Refusal` with status 501 for a transfer coding other than `chunked`, 415 for the wrong media type or charset
 *   or any content coding, 413 if the body is larger than `maxBytes`, or 400 if it isn't UTF-8 encoded JSON
 */
export async function readJson(request: ApiRequest, maxBytes: number): Promise<unknown> {
  checkCoding(request)
  checkMediaType(request.header('content-type'), 'application/json')
  const declared = request.header('content-length')
  if (Number(declared) > maxBytes) throw refusals.tooLarge(maxBytes)
  // Check the declared length, because body parsers turn an empty body into an empty object.
  if (declared === '0') throw refusals.empty()
  const body = await request.body(maxBytes)
  if (body.kind === 'bytes') return parseJson(body.bytes, maxBytes)
  if (declared === undefined && measure(body.value) > maxBytes) throw refusals.tooLarge(maxBytes)
  return body.value
}

/** Form fields by name. A field can have several values. */
export type FormFields = ReadonlyMap<string, readonly string[]>

/**
 * Reads an HTML form (`application/x-www-form-urlencoded`), even if `express.urlencoded` has already parsed it.
 *
 * @throws `Refusal` like {@link readJson}
 */
export async function readForm(request: ApiRequest, maxBytes: number): Promise<FormFields> {
  checkCoding(request)
  checkMediaType(request.header('content-type'), 'application/x-www-form-urlencoded')
  if (Number(request.header('content-length')) > maxBytes) throw refusals.tooLarge(maxBytes)
  const body = await request.body(maxBytes)
  if (body.kind === 'bytes') {
    if (body.bytes.byteLength > maxBytes) throw refusals.tooLarge(maxBytes)
    return readParameters(new TextDecoder().decode(body.bytes))
  }
  if (measure(body.value) > maxBytes) throw refusals.tooLarge(maxBytes)
  return new Map(Object.entries(Object(body.value)).map(([name, value]) => [name, textsOf(value)]))
}

/** Parses a query string or form in a single pass, because `getAll` for each of many names would take seconds. */
export function readParameters(text: string): FormFields {
  const fields = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(text)) {
    const values = fields.get(name)
    if (values) values.push(value)
    else fields.set(name, [value])
  }
  return fields
}

/** Returns all values of a repeated field. Parsers return a list, or an object if there are a lot of values. */
function textsOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  return Object.values(Object(value)).filter((each) => typeof each === 'string')
}

function checkCoding(request: ApiRequest): void {
  // For `gzip, chunked`, node:http joins the chunks but doesn't decompress the body.
  if (!/^(chunked)?$/i.test(request.header('transfer-encoding') ?? '')) throw refusals.unknownCoding()
  if (request.header('content-encoding') !== undefined) {
    throw refusals.unsupported('Content-Encoding is not supported: send the body as it is')
  }
}

/**
 * Returns the JSON size of a body that the host has already parsed, for requests without a Content-Length. A value
 * nested too deeply to serialize counts as too large.
 */
function measure(value: unknown): number {
  try {
    return Buffer.byteLength(JSON.stringify(value))
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

type BodyType = 'application/json' | 'application/x-www-form-urlencoded'

function checkMediaType(contentType: string | undefined, expected: BodyType): void {
  const [mediaType, ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase())
  if (mediaType !== expected) throw refusals.wrongMediaType(expected)
  for (const parameter of parameters) {
    const [name, value = ''] = parameter.split('=').map((side) => side.trim())
    if (name === 'charset' && value.replaceAll('"', '') !== 'utf-8') {
      throw refusals.unsupported(`Content-Type must be ${expected} in UTF-8`)
    }
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function parseJson(bytes: Uint8Array, maxBytes: number): unknown {
  if (bytes.byteLength > maxBytes) throw refusals.tooLarge(maxBytes)
  if (bytes.byteLength === 0) throw refusals.empty()
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw refusals.malformed('Request body is not valid UTF-8')
  }
  try {
    return JSON.parse(text)
  } catch {
    throw refusals.notJson()
  }
}
