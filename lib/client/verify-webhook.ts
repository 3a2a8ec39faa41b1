import { readSignature, type VerifyWebhookOptions } from '../webhooks/signature-header.ts'

/**
 * Verifies, using Web Crypto, that a request was recently signed with a secret (see section 6 of the spec). Same as the
 * synchronous `verifyWebhook` in `business-api-kit/webhooks`, but works in any runtime with `crypto.subtle`.
 *
 * @param body the raw body. Parsed bodies can't be verified
 * @param header the signature header's value
 * @param secrets the endpoint's signing secret, or all secrets that are currently valid
 * @returns when the request was signed, in Unix seconds
 * @throws `WebhookError` if the request can't be trusted, or `TypeError` or `RangeError` for invalid arguments
 *
 * @example
 * ```ts
 * import { verifyWebhook } from 'business-api-kit/client'
 *
 * await verifyWebhook(rawBody, new Headers().get('X-SERVICE-Signature'), secret)
 * ```
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  header: string | readonly string[] | null | undefined,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions = {},
): Promise<{ timestamp: number }> {
  const { timestamp, signatures, secrets: keys, conclude } = readSignature(body, header, secrets, options)
  const head = encoder.encode(`${timestamp}.`)
  const bytes = typeof body === 'string' ? encoder.encode(body) : body
  const signed = joinBytes([head, bytes], head.length + bytes.length)
  const given = signatures.map(readHex)
  let isMatch = false
  for (const key of keys) {
    const expected = await hmacOf(key, signed)
    // Don't return early. The timing must not reveal which secret matches, or even that one does.
    for (const signature of given) isMatch = isEqual(signature, expected) || isMatch
  }
  return conclude(isMatch)
}

const encoder = new TextEncoder()
const HMAC = { name: 'HMAC', hash: 'SHA-256' }

async function hmacOf(secret: string, signed: Uint8Array): Promise<Uint8Array> {
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), HMAC, false, ['sign'])
  return new Uint8Array(await crypto.subtle.sign(HMAC.name, key, signed as Uint8Array<ArrayBuffer>))
}

/** Joins chunks with the given total size. We leave out the buffer's type for TypeScript versions before 5.7. */
export function joinBytes(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const joined = new Uint8Array(size)
  let place = 0
  for (const chunk of chunks) {
    joined.set(chunk, place)
    place += chunk.length
  }
  return joined
}

/** Decodes 64 hex digits that `readSignature` has already validated. */
function readHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16))
}

/** Compares 32 bytes in constant time. */
function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  let difference = one.length ^ other.length
  for (let index = 0; index < other.length; index++) difference |= (one[index] ?? 0) ^ (other[index] ?? 0)
  return difference === 0
}
