import type { ApiReply } from './message.ts'

/** The facts about the request that a reply repeats. */
interface Answered {
  readonly requestId: string
  readonly headers: Readonly<Record<string, string>>
}

/** Makes a reply with JSON text as its body and the headers that every reply carries. */
export function jsonReply(
  status: number,
  body: string,
  { requestId, headers }: Answered,
  ownHeaders: Readonly<Record<string, string>> = {},
): ApiReply {
  return {
    status,
    headers: {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': String(Buffer.byteLength(body)),
      'Cache-Control': 'no-store',
      'X-Content-Type-Options': 'nosniff',
      'X-Request-Id': requestId,
      ...headers,
      ...ownHeaders,
    },
    body,
  }
}

/** A reply without a body: 204 and 304. */
export function bareReply(
  status: number,
  { requestId }: Answered,
  ownHeaders: Readonly<Record<string, string>>,
): ApiReply {
  return {
    status,
    headers: {
      'Cache-Control': 'no-store',
      'X-Content-Type-Options': 'nosniff',
      'X-Request-Id': requestId,
      ...ownHeaders,
    },
    body: '',
  }
}
