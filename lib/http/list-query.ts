import type { PageRequest, Since } from '../access/admission.ts'
import { isIsoMoment, isStorable } from '../base/fields.ts'
import type { IdKind } from '../base/ids.ts'
import { type Refusal, refusals } from './refusal.ts'
import { pathOf } from './target.ts'

/** Specification, section 8. */
export const LIMIT_DEFAULT = 50
/** Specification, section 8. */
export const LIMIT_MAX = 200

/** The names that other APIs give to the parameters of a page. Ignored, they would make a client read the same page forever. */
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

/** Maximum length of an id in a host's own list, in characters. */
const OWN_ID_MAX = 64

/** More letters and digits than a ULID has, because the host's own records may have other ids. */
const AFTER_PREFIX = /^[\w-]{1,59}$/

/**
 * Reads the query of a list (specification, section 4): `limit`, and beside it `before` or `updatedSince`. Parameters with names of other kinds are
 * ignored.
 *
 * @param query the part after the `?`; may be empty
 * @param ids the kind of the list's ids, or the pattern of the host's own ids
 * @returns the refusal 422 for a value that breaks its rule, for a parameter given twice, and for a foreign name. Returned and
 *   not thrown, because the API key is judged before the query
 */
export function readListQuery(query: string, ids: IdKind | RegExp): PageRequest | Refusal {
  if (query === '') return DEFAULT_PAGE
  const given = new URLSearchParams(query)
  // Generated clients send an unset parameter empty.
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

/** Reads a limit: 1 to 200 without leading zeros, 50 when absent. Null for any other value, and for two values. */
function readLimit(values: readonly string[]): number | null {
  const [value] = values
  if (value === undefined) return LIMIT_DEFAULT
  const limit = /^[1-9]\d{0,2}$/.test(value) ? Number(value) : 0
  return values.length > 1 || limit < 1 || limit > LIMIT_MAX ? null : limit
}

/** Returns whether a text may be an id of a list. @param ids as for {@link readListQuery} */
export function isIdLike(text: string, ids: IdKind | RegExp): boolean {
  if (typeof ids !== 'string') return text.length <= OWN_ID_MAX && isStorable(text) && ids.test(text)
  return text.startsWith(`${ids}_`) && AFTER_PREFIX.test(text.slice(ids.length + 1))
}

/** Reads where a list of changes begins: a time, or a token of {@link syncToken}. Null for any other value, and for two values. */
function readSince([value, ...more]: readonly string[]): Since | null {
  if (value === undefined || more.length > 0) return null
  // A plus sign that came unencoded is a space.
  const time = value.replace(/ (?=\d\d:\d\d$)/, '+')
  if (isIsoMoment(time)) {
    const ms = Math.min(Math.max(Date.parse(time.toUpperCase()), 0), TIME_MAX)
    return { time: new Date(ms).toISOString() }
  }
  if (!TOKEN.test(value)) return null
  const text = Buffer.from(value, 'base64url').toString('utf8')
  const [, version, position = ''] = VERSIONED.exec(text) ?? []
  if (version === undefined) return null
  // The token of another version means everything, as a position that the store cannot use does.
  return { position: version === TOKEN_VERSION ? position : '' }
}

/** The last moment of the year 9999. */
const TIME_MAX = Date.UTC(10_000) - 1

const TOKEN = /^[\w-]{1,1024}$/
const VERSIONED = /^v(\d{1,4}) (.*)$/s
const TOKEN_VERSION = '1'

/** Makes an opaque token for a store's position, from characters that need no escaping in a URL. */
export function syncToken(position: string): string {
  return Buffer.from(`v${TOKEN_VERSION} ${position}`).toString('base64url')
}

/**
 * Builds the Link header that names the next page (RFC 8288).
 *
 * @param list the URL of the list, by {@link listUrl}
 * @param query of the request
 * @param next the parameter that continues, by name
 * @param keepsAll true for a host's own list, whose further parameters may filter; else only `limit` stays
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
 * Returns a list's URL for a `Link`: absolute with `baseUrl`, else relative to the request, so it is right behind every mount and
 * proxy. Never a bare `?limit=…`: Java's resolvers follow RFC 2396, in which such a reference drops the last segment of the path.
 *
 * @param path of the list: `/api/v1/clients`
 * @param target of the request: with a slash at its end, the last segment is above
 */
export function listUrl(path: string, baseUrl: string | undefined, target = path): string {
  const slash = pathOf(target).endsWith('/') ? '/' : ''
  if (baseUrl !== undefined) return baseUrl + path + slash
  return (slash && '../') + path.slice(path.lastIndexOf('/') + 1) + slash
}
