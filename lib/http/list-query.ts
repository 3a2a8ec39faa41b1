import type { PageRequest, Since } from '../access/admission.ts'
import { isIsoMoment, isStorable } from '../base/fields.ts'
import type { IdKind } from '../base/ids.ts'
import { type Refusal, refusals } from './refusal.ts'
import { pathOf } from './target.ts'

/** The default page size (specification, section 8). */
export const LIMIT_DEFAULT = 50
/** The maximum page size (specification, section 8). */
export const LIMIT_MAX = 200

/** Paging parameters of other APIs, mapped to ours. If ignored, clients would read the same page forever. */
const FOREIGN_NAMES: Readonly<Record<string, 'limit' | 'before'>> = {
  page_size: 'limit',
  per_page: 'limit',
  page: 'before',
  offset: 'before',
  cursor: 'before',
  after: 'before',
  starting_after: 'before',
  ending_before: 'before',
}

const DEFAULT_PAGE: PageRequest = { limit: LIMIT_DEFAULT }

/** Maximum length of an id in a list of the host, in characters. */
const OWN_ID_MAX = 64

/** Matches the part of an id after its prefix. The host's own ids don't have to be ULIDs. */
const AFTER_PREFIX = /^[\w-]{1,59}$/

/**
 * Parses the query string of a list (specification, section 4), that is `limit` and either `before` or `updatedSince`.
 * Unrelated parameters are ignored.
 *
 * @param query the part after the `?`, can be empty
 * @param ids the kind of the list's ids, or the pattern of ids chosen by the host
 * @returns the page, or a 422 refusal for an invalid value, a repeated parameter, or a name from another API. It's
 *   returned and not thrown because the API key must be checked before the query
 */
export function readListQuery(query: string, ids: IdKind | RegExp): PageRequest | Refusal {
  if (query === '') return DEFAULT_PAGE
  const given = new URLSearchParams(query)
  // Generated clients may send unset parameters as empty strings.
  for (const name of ['before', 'updatedSince'])
    if (given.get(name) === '' && given.getAll(name).length === 1) given.delete(name)
  for (const name of given.keys()) {
    if (Object.hasOwn(FOREIGN_NAMES, name)) return refusals.foreignParameter(name, FOREIGN_NAMES[name] ?? '')
  }
  const limit = readLimit(given.getAll('limit'))
  if (limit === null) return refusals.invalidLimit(LIMIT_MAX)
  if (given.has('updatedSince')) {
    if (typeof ids !== 'string') return refusals.notSynced()
    if (given.has('before')) return refusals.beforeAndSince()
    const since = readSince(given.getAll('updatedSince'))
    return since === null ? refusals.invalidSince() : { limit, since }
  }
  const [before, ...more] = given.getAll('before')
  if (before === undefined) return { limit }
  return more.length === 0 && isIdLike(before, ids) ? { limit, before } : refusals.invalidBefore(ids)
}

/** Parses the `limit` (1 to 200, 50 by default). Returns `null` if invalid or repeated. */
function readLimit(values: readonly string[]): number | null {
  const [value] = values
  if (value === undefined) return LIMIT_DEFAULT
  const limit = /^[1-9]\d{0,2}$/.test(value) ? Number(value) : 0
  return values.length > 1 || limit < 1 || limit > LIMIT_MAX ? null : limit
}

/** Returns `true` if a string could be an id of the list. See {@link readListQuery} for `ids`. */
export function isIdLike(text: string, ids: IdKind | RegExp): boolean {
  if (typeof ids !== 'string') return text.length <= OWN_ID_MAX && isStorable(text) && ids.test(text)
  return text.startsWith(`${ids}_`) && AFTER_PREFIX.test(text.slice(ids.length + 1))
}

/** Parses `updatedSince` (a time or a {@link syncToken}). Returns `null` if invalid or repeated. */
function readSince([value, ...more]: readonly string[]): Since | null {
  if (value === undefined || more.length > 0) return null
  // A plus sign that wasn't URL-encoded arrives as a space.
  const time = value.replace(/ (?=\d\d:\d\d$)/, '+')
  if (isIsoMoment(time)) {
    const ms = Math.min(Math.max(Date.parse(time.toUpperCase()), 0), TIME_MAX)
    return { time: new Date(ms).toISOString() }
  }
  if (!TOKEN.test(value)) return null
  const text = Buffer.from(value, 'base64url').toString('utf8')
  const [, version, position = ''] = VERSIONED.exec(text) ?? []
  if (version === undefined) return null
  // We can't read tokens of other versions, so return all records, as for any position that the store can't use.
  return { position: version === TOKEN_VERSION ? position : '' }
}

/** The end of the year 9999. */
const TIME_MAX = Date.UTC(10_000) - 1

const TOKEN = /^[\w-]{1,1024}$/
const VERSIONED = /^v(\d{1,4}) (.*)$/s
const TOKEN_VERSION = '1'

/** Encodes a store's position as an opaque, URL-safe token. */
export function syncToken(position: string): string {
  return Buffer.from(`v${TOKEN_VERSION} ${position}`).toString('base64url')
}

/**
 * Builds the Link header for the next page (RFC 8288).
 *
 * @param list the list's URL, see {@link listUrl}
 * @param query the request's query string
 * @param next the parameters for the next page by name
 * @param keepsAll if `true`, keep all other parameters, which may be filters of a host's list. Otherwise only `limit`
 */
export function nextLink(
  list: string,
  query: string,
  next: Readonly<Record<string, string>>,
  keepsAll = false,
): string {
  const given = new URLSearchParams(query)
  const limit = given.get('limit')
  const parameters = keepsAll ? given : new URLSearchParams(limit === null ? {} : { limit })
  for (const [name, value] of Object.entries(next)) parameters.set(name, value)
  return `<${list}?${parameters}>; rel="next"`
}

/**
 * Returns a list's URL for the `Link` header. With a `baseUrl` the URL is absolute, otherwise relative to the request
 * so that any mount path or proxy works. We never use just `?limit=…` because Java resolves URLs according to RFC 2396,
 * and would drop the last path segment.
 *
 * @param path the list's path, for example `/api/v1/clients`
 * @param target the request's target. After a trailing slash, the URL has to go up one segment
 */
export function listUrl(path: string, baseUrl: string | undefined, target = path): string {
  const slash = pathOf(target).endsWith('/') ? '/' : ''
  if (baseUrl !== undefined) return baseUrl + path + slash
  return (slash && '../') + path.slice(path.lastIndexOf('/') + 1) + slash
}
