import type { ApiReply } from '../http/message.ts'

/** The parts of a response that depend on the request and options. */
export interface ReplyContext {
  readonly requestId: string
  readonly csp: string
  readonly frameAncestors: 'none' | 'self'
}

/** Creates an HTML response that must not be cached. */
export function htmlReply(status: number, body: string, context: ReplyContext): ApiReply {
  return {
    status,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Length': String(Buffer.byteLength(body)),
      ...commonHeaders(context),
    },
    body,
  }
}

/** Creates a redirect. @param location a path of the page or the URL of the sign-in page */
export function redirectReply(location: string, context: ReplyContext): ApiReply {
  return {
    status: 303,
    headers: { Location: location, 'Content-Length': '0', ...commonHeaders(context) },
    body: '',
  }
}

/** Creates a file download. */
export function downloadReply(
  { fileName, type, text }: { readonly fileName: string; readonly type: string; readonly text: string },
  context: ReplyContext,
): ApiReply {
  return {
    status: 200,
    headers: {
      'Content-Type': type,
      'Content-Length': String(Buffer.byteLength(text)),
      'Content-Disposition': `attachment; filename="${fileName}"`,
      ...commonHeaders(context),
    },
    body: text,
  }
}

/** Creates a response that can be cached forever because the path changes with the content. */
export function assetReply(type: string, body: string): ApiReply {
  return {
    status: 200,
    headers: {
      'Content-Type': `${type}; charset=utf-8`,
      'Content-Length': String(Buffer.byteLength(body)),
      'Cache-Control': 'public, max-age=31536000, immutable',
      'X-Content-Type-Options': 'nosniff',
    },
    body,
  }
}

/** Returns the Content-Security-Policy. @param nonce allowed in addition to the page's own origin */
export function contentSecurityPolicy(frameAncestors: 'none' | 'self', nonce: string | undefined): string {
  const own = nonce === undefined ? "'self'" : `'self' 'nonce-${nonce}'`
  return [
    "default-src 'none'",
    `script-src ${own}`,
    `style-src ${own}`,
    "connect-src 'self'",
    "img-src 'self' data:",
    "form-action 'self'",
    "base-uri 'none'",
    `frame-ancestors '${frameAncestors}'`,
  ].join('; ')
}

function commonHeaders({ requestId, csp, frameAncestors }: ReplyContext): Record<string, string> {
  return {
    'Cache-Control': 'no-store',
    'Content-Security-Policy': csp,
    'Cross-Origin-Opener-Policy': 'same-origin',
    // Not `no-referrer`, because a form's Origin header would then be `null`.
    'Referrer-Policy': 'same-origin',
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': frameAncestors === 'none' ? 'DENY' : 'SAMEORIGIN',
    'X-Request-Id': requestId,
  }
}
