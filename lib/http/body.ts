import type { ApiRequest } from './message.ts'
import { refusals } from './refusal.ts'

/**
 * Reads a JSON body (specification, section 4).
 *
 * @throws `Refusal` 501 for a transfer coding other than `chunked`; 415 for another media type, charset or any content
 *   coding; 413 for more than `maxBytes`; 400 for a body that is not JSON in UTF-8
 */
export async function readJson(request: ApiRequest, maxBytes: number): Promise<unknown> {
  checkCoding(request)
  checkMediaType(request.header('content-type'), 'application/json')
  const declared = request.header('content-length')
  if (Number(declared) > maxBytes) throw refusals.tooLarge(maxBytes)
  // Judged by the declared length, because a body parser makes an empty object of an empty body.
  if (declared === '0') throw refusals.empty()
  const body = await request.body(maxBytes)
  if (body.kind === 'bytes') return parseJson(body.bytes, maxBytes)
  if (declared === undefined && measure(body.value) > maxBytes) throw refusals.tooLarge(maxBytes)
  return body.value
}

/** The fields of a form, by name; a field can have several values. */
export type FormFields = ReadonlyMap<string, readonly string[]>

/**
 * Reads the body of an HTML form, `application/x-www-form-urlencoded`, also after `express.urlencoded` has parsed the body.
 *
 * @throws `Refusal` as {@link readJson}
 */
export async function readForm(request: ApiRequest, maxBytes: number): Promise<FormFields> {
  checkCoding(request)
  checkMediaType(request.header('content-type'), 'application/x-www-form-urlencoded')
  if (Number(request.header('content-length')) > maxBytes) throw refusals.tooLarge(maxBytes)
  const body = await request.body(maxBytes)
  if (body.kind === 'bytes') {
    if (body.bytes.byteLength > maxBytes) throw refusals.tooLarge(maxBytes)
    const parameters = new URLSearchParams(new TextDecoder().decode(body.bytes))
    return new Map([...new Set(parameters.keys())].map((name) => [name, parameters.getAll(name)]))
  }
  if (measure(body.value) > maxBytes) throw refusals.tooLarge(maxBytes)
  return new Map(Object.entries(Object(body.value)).map(([name, value]) => [name, textsOf(value)]))
}

/** Parsers return the values of a repeated field as a list; many values become an object with indexes. */
function textsOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  return Object.values(Object(value)).filter((each) => typeof each === 'string')
}

function checkCoding(request: ApiRequest): void {
  // node:http joins the chunks of a body sent with `gzip, chunked`, but the body is still compressed.
  if (!/^(chunked)?$/i.test(request.header('transfer-encoding') ?? '')) throw refusals.unknownCoding()
  if (request.header('content-encoding') !== undefined) {
    throw refusals.unsupported('Content-Encoding is not supported: send the body as it is')
  }
}

/**
 * Returns the length of a body that the host has parsed, when the length was not declared: the bytes of the value as
 * JSON. A value nested too deep for JSON counts as too large.
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
