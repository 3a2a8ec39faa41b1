import { createHash } from 'node:crypto'
import type { ApiReply } from '../http/message.ts'
import { bareReply, jsonReply } from '../http/reply.ts'
import { buildOpenApiDocument } from '../openapi/document.ts'
import type { Route } from '../resources/route.ts'
import type { Exchange } from './exchange.ts'
import type { ResolvedOptions } from './options.ts'

/**
 * Lets documentation viewers load the document. Other paths have no CORS headers because keys don't belong in browsers.
 */
export const OPEN_TO_BROWSERS = { 'Access-Control-Allow-Origin': '*' } as const

/**
 * Handles `GET /openapi.json`, which is cacheable and doesn't need a key. Documents are built lazily.
 *
 * @throws `TypeError` if the document can't represent one of the host's schemas
 */
export function createOpenApiReply(
  operations: readonly Route[],
  resolved: ResolvedOptions,
): (exchange: Exchange) => ApiReply {
  if (resolved.events.length + resolved.routes.length > 0) build(operations, resolved)
  /** Documents by mount path. A host can mount the API several times. */
  const built = new Map<string, BuiltDocument>()

  function documentFor(mountPath: string): BuiltDocument {
    const basePath = built.has(mountPath) || built.size < MOUNTS_MAX ? mountPath : ''
    const document = built.get(basePath) ?? build(operations, { ...resolved, basePath })
    built.set(basePath, document)
    return document
  }

  return (exchange) => {
    const { body, headers } = documentFor(resolved.basePath || exchange.publicPath)
    return isKnown(exchange.request.header('if-none-match'), headers.ETag)
      ? bareReply(304, exchange, headers)
      : jsonReply(200, body, { requestId: exchange.requestId, headers }, {})
  }
}

/** Maximum number of mount paths that get their own document. The rest get the root document. */
const MOUNTS_MAX = 8

type BuiltDocument = ReturnType<typeof build>

/** Compares ETags. The header is an asterisk or a list of tags to compare weakly (RFC 9110, section 13.1.2). */
function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = ifNoneMatch?.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags !== undefined && (tags.includes(etag) || tags.includes('*'))
}

function build(operations: readonly Route[], resolved: ResolvedOptions) {
  const body = JSON.stringify(buildOpenApiDocument({ ...resolved, operations }))
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  return { body, headers: { ...OPEN_TO_BROWSERS, 'Cache-Control': 'public, max-age=300', ETag: etag } }
}
