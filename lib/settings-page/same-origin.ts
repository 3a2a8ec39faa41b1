import type { ApiRequest } from '../http/message.ts'

/**
 * Returns true for a form that a page of the same origin sent. Browsers report the origin in `Sec-Fetch-Site`, and no script
 * can set that header. Browsers without `Sec-Fetch-Site`, and all browsers over plain http, send `Origin`: the host of
 * `Origin` must equal the host of the request. A form of a sibling subdomain is refused, although cookies with SameSite
 * come along with such a form.
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
