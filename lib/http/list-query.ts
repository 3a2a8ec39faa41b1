import type { PageRequest } from '../access/admission.ts'
import type { IdKind } from '../base/ids.ts'
import { type Refusal, refusals } from './refusal.ts'

/** Specification, section 8. */
export const LIMIT_DEFAULT = 50
/** Specification, section 8. */
export const LIMIT_MAX = 200

/** The names that other APIs give to the parameters of a page. Ignored, they would make a client read the same page for ever. */
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

/** Letters and digits beyond those of a ULID, because the ids of a host's own records may differ. */
const AFTER_PREFIX = /^[\w-]{1,59}$/

/**
 * Reads the query of a list (specification, section 4): `limit`, and beside it `before`. Parameters with names of other kinds are
 * ignored.
 *
 * @param query the text after the `?`; may be empty
 * @param idKind the kind of the list's ids
 * @returns the refusal 422 for a value that breaks its rule, for a parameter given twice, and for a foreign name. Returned and
 *   not thrown, because the API key is judged before the query
 */
export function readListQuery(query: string, idKind: IdKind): PageRequest | Refusal {
  if (query === '') return DEFAULT_PAGE
  const given = new URLSearchParams(query)
  for (const name of given.keys()) {
    if (Object.hasOwn(FOREIGN_NAMES, name)) return refusals.foreignParameter(name, FOREIGN_NAMES[name] ?? '')
  }
  const limit = readLimit(given.getAll('limit'))
  if (limit === null) return refusals.invalidLimit(LIMIT_MAX)
  const ids = given.getAll('before')
  const [before] = ids
  if (before === undefined) return { limit }
  return ids.length === 1 && isIdLike(before, idKind) ? { limit, before } : refusals.invalidBefore(idKind)
}

/** Reads a limit: 1 to 200 without leading zeros, 50 when absent. Null for any other value, and for two values. */
function readLimit(values: readonly string[]): number | null {
  const [value] = values
  if (value === undefined) return LIMIT_DEFAULT
  const limit = /^[1-9]\d{0,2}$/.test(value) ? Number(value) : 0
  return values.length > 1 || limit < 1 || limit > LIMIT_MAX ? null : limit
}

function isIdLike(text: string, kind: IdKind): boolean {
  return text.startsWith(`${kind}_`) && AFTER_PREFIX.test(text.slice(kind.length + 1))
}

/**
 * Builds the Link header that names the next page (RFC 8288): relative to the request, and therefore right behind every mount
 * and proxy, with the parameters that {@link readListQuery} knows.
 *
 * @param query of the request
 * @param next the parameter that continues, by name
 */
export function nextLink(query: string, next: Readonly<Record<string, string>>): string {
  const limit = new URLSearchParams(query).get('limit')
  const parameters = new URLSearchParams({ ...(limit === null ? {} : { limit }), ...next })
  return `<?${parameters}>; rel="next"`
}
