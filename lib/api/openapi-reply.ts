import { createHash } from 'node:crypto'
import type { ApiReply } from '../http/message.ts'
import { bareReply, jsonReply } from '../http/reply.ts'
import { buildOpenApiDocument } from '../openapi/document.ts'
import type { Route } from '../resources/route.ts'
import type { Exchange } from './operations.ts'
import type { ResolvedOptions } from './options.ts'

interface DocumentHeaders extends Record<string, string> {
  'Cache-Control': string
  ETag: string
}

/** Answers `GET /openapi.json`, cacheable and without a key. The first request builds the document, once. */
export function createOpenApiReply(
  routes: readonly Route[],
  resolved: ResolvedOptions,
): (exchange: Exchange) => ApiReply {
  let built: { body: string; headers: DocumentHeaders } | undefined

  return (exchange) => {
    built ??= build(routes, resolved)
    const { body, headers } = built
    return isKnown(exchange.request.header('if-none-match'), headers.ETag)
      ? bareReply(304, exchange, headers)
      : jsonReply(200, body, exchange, headers)
  }
}

/** RFC 9110, section 13.1.2: a list of tags, compared weakly, or an asterisk. */
function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = ifNoneMatch?.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags !== undefined && (tags.includes(etag) || tags.includes('*'))
}

function build(
  routes: readonly Route[],
  resolved: ResolvedOptions,
): { body: string; headers: DocumentHeaders } {
  const body = JSON.stringify(buildOpenApiDocument({ routes, ...resolved }))
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  return { body, headers: { 'Cache-Control': 'public, max-age=300', ETag: etag } }
}
