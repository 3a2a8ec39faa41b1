import { type Names, readWhole, rejectUnknown } from '../base/options.ts'
import { ApiError, INVALID_RESPONSE } from './api-error.ts'
import type { AnswerBody, ClientRequest } from './attempt.ts'
import type { CallSender } from './call.ts'
import type { CallOptions } from './client-options.ts'
import { findNextLink } from './next-link.ts'

/** Options of a list. */
export interface ListOptions extends CallOptions {
  /** Records in each request, from 1 to 200. Default 200. */
  readonly pageSize?: number | undefined
  /** Lists the records that were created or changed since, oldest change first: a time, or the `syncToken` of an earlier list. */
  readonly updatedSince?: Date | string | undefined
}

/** A page of a list. */
export interface Page<Item> {
  readonly data: readonly Item[]
  /** For `updatedSince` of the next list; null if the API sent none. */
  readonly syncToken: string | null
}

/**
 * The records of a resource, newest first, page after page as long as the API names a next page. Nothing is requested before the
 * first record is asked for, and each iteration begins anew.
 */
export interface List<Item> extends AsyncIterable<Item> {
  /** Gives the same records page by page. */
  pages(): AsyncIterable<Page<Item>>
}

const PAGE_MAX = 200
const NAMES: Names<ListOptions> = { pageSize: true, updatedSince: true, signal: true }

/**
 * Creates a list.
 *
 * @param resource as in the path: `clients`
 * @throws `RangeError` for a page size that the API would reject
 */
export function createList<Item>(
  call: CallSender,
  resource: string,
  url: string,
  options: ListOptions = {},
): List<Item> {
  rejectUnknown(options, NAMES)
  const { pageSize, updatedSince, signal } = options
  const query = new URLSearchParams({
    limit: String(readWhole('pageSize', pageSize, PAGE_MAX, { max: PAGE_MAX })),
  })
  if (updatedSince !== undefined) {
    query.set('updatedSince', typeof updatedSince === 'string' ? updatedSince : updatedSince.toISOString())
  }

  async function* readPages(): AsyncGenerator<Page<Item>, void, void> {
    const requested = new Set<string>()
    let next: string | null = `${url}?${query}`
    while (next !== null) {
      requested.add(next)
      const request: ClientRequest = { ...LIST, action: `list ${resource}`, url: next }
      const { data, headers } = await call(request, readItems<Item>, { signal })
      yield { data, syncToken: headers.get('sync-token') }
      next = readNext(headers, request, requested)
    }
  }

  async function* readRecords(): AsyncGenerator<Item, void, void> {
    for await (const { data } of readPages()) yield* data
  }

  return { pages: readPages, [Symbol.asyncIterator]: readRecords }
}

const LIST = { method: 'GET', body: null, idempotencyKey: null } as const

function readItems<Item>({ data }: AnswerBody): readonly Item[] | undefined {
  return Array.isArray(data) ? data : undefined
}

/** Not the origin, which a `blob:` URL has of the URL inside. */
function placeOf({ protocol, host }: URL): string {
  return `${protocol}//${host}`
}

/**
 * Reads the URL of the next page, relative to the URL of the request; null after the last page. A link to another origin would
 * carry the key away, and a link to a page that was read would go on forever.
 */
function readNext(
  headers: Headers,
  { action, url }: ClientRequest,
  requested: ReadonlySet<string>,
): string | null {
  const link = findNextLink(headers.get('link'))
  if (link === null) return null
  const next = URL.canParse(link, url) ? new URL(link, url) : null
  if (next) next.hash = ''
  const fault = !next
    ? 'is not a URL'
    : placeOf(next) !== placeOf(new URL(url))
      ? 'leads to another origin'
      : next.username || next.password
        ? 'holds credentials'
        : requested.has(next.href)
          ? 'leads back to a page that was read'
          : null
  if (next && fault === null) return next.href
  throw new ApiError(`Cannot ${action} to the end because the link to the next page ${fault}`, {
    code: INVALID_RESPONSE,
    isTransient: false,
    status: 200,
    requestId: headers.get('x-request-id'),
  })
}
