import { createHash } from 'node:crypto'
import type { ApiReply } from '../http/message.ts'
import { bareReply, jsonReply } from '../http/reply.ts'
import { buildOpenApiDocument } from '../openapi/document.ts'
import type { Route } from '../resources/route.ts'
import type { Exchange } from './exchange.ts'
import type { ResolvedOptions } from './options.ts'

/** Documentation viewers of other origins may read the document. No other path has CORS headers: keys do not live in browsers. */
export const OPEN_TO_BROWSERS = { 'Access-Control-Allow-Origin': '*' } as const

/**
 * Answers `GET /openapi.json`, cacheable and without a key. The first request below a mount path builds the document.
 *
 * @throws `TypeError` for a schema of the host's own that the document cannot describe
 */
export function createOpenApiReply(
  operations: readonly Route[],
  resolved: ResolvedOptions,
): (exchange: Exchange) => ApiReply {
  if (resolved.events.length + resolved.routes.length > 0) build(operations, resolved)
  /** By the mount path: a host may mount the API at several. */
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

/**
 * Mount paths with a document of their own. The mount path of a router with parameters can be any text; further ones get the
 * document of the root.
 */
const MOUNTS_MAX = 8

type BuiltDocument = ReturnType<typeof build>

/** RFC 9110, section 13.1.2: a list of tags, compared weakly, or an asterisk. */
function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = ifNoneMatch?.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags !== undefined && (tags.includes(etag) || tags.includes('*'))
}

function build(operations: readonly Route[], resolved: ResolvedOptions) {
  const body = JSON.stringify(buildOpenApiDocument({ ...resolved, operations }))
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  return { body, headers: { ...OPEN_TO_BROWSERS, 'Cache-Control': 'public, max-age=300', ETag: etag } }
}
