import type { ApiRequest } from '../http/message.ts'

/**
 * Returns whether a page of the same origin sent a form. Browsers name the relation in `Sec-Fetch-Site`, which no script can set;
 * browsers without it, and all over plain http, send `Origin`, whose host must be the one that was asked. A sibling
 * subdomain is refused too, which cookies with SameSite let through.
 *
 * @param origins further origins of the host
 */
export function isSameOrigin(request: ApiRequest, origins: readonly string[]): boolean {
  const site = request.header('sec-fetch-site')
  if (site !== undefined) return site === 'same-origin'
  const origin = request.header('origin')
  const host = request.header('host')
  if (origin === undefined || !URL.canParse(origin)) return false
  return origins.includes(origin) || (host !== undefined && new URL(origin).host === host.toLowerCase())
}
