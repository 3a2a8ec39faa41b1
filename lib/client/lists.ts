import { readWhole, rejectUnknown } from '../base/options.ts'
import { ApiError, INVALID_RESPONSE } from './api-error.ts'
import type { AnswerBody, ClientRequest } from './attempt.ts'
import type { CallSender } from './call.ts'
import type { CallOptions } from './client-options.ts'

/** Options for list calls. */
export interface ListOptions extends CallOptions {
  /** Records per request, from 1 to 200. Defaults to 200. */
  readonly pageSize?: number | undefined
  /** Only list records created or changed since then, oldest change first. Pass a time or an earlier `syncToken`. */
  readonly updatedSince?: Date | string | undefined
}

/** A page of a list. */
export interface Page<Item> {
  readonly data: readonly Item[]
  /** The `updatedSince` value for the next list, or `null` if the API didn't return one. */
  readonly syncToken: string | null
}

/**
 * All of a resource's records, newest first. Pages are requested lazily as you iterate, and each iteration starts over.
 */
export interface List<Item> extends AsyncIterable<Item> {
  /** Iterates over the same records page by page. */
  pages(): AsyncIterable<Page<Item>>
}

const PAGE_MAX = 200

/**
 * Creates a list.
 *
 * @param resource the name in the path, for example `clients`
 * @throws `RangeError` if the API would reject the page size
 */
export function createList<Item>(
  call: CallSender,
  resource: string,
  url: string,
  options: ListOptions = {},
): List<Item> {
  rejectUnknown(options, { pageSize: true, updatedSince: true, signal: true })
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

/** We can't use `origin`, because for a `blob:` URL that's the inner URL's origin. */
function placeOf({ protocol, host }: URL): string {
  return `${protocol}//${host}`
}

/**
 * Returns the next page's URL, resolved against the request's URL, or `null` on the last page. We reject links to
 * another origin, which would receive the key, and links to pages that we've already read.
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

/**
 * Returns the unresolved target of the first `next` link in a Link header (RFC 8288). Ignores links with an `anchor`,
 * since they're about a different resource.
 *
 * @returns `null` if there's no such link
 */
export function findNextLink(header: string | null): string | null {
  for (const [, target = '', parameters = ''] of (header ?? '').matchAll(LINK)) {
    const found = [...parameters.matchAll(PARAMETER)].map(
      ([, name = '', quoted, token]) =>
        [name.toLowerCase(), quoted?.replaceAll(/\\(.)/g, '$1') ?? token ?? ''] as const,
    )
    if (found.some(([name]) => name === 'anchor')) continue
    // Only the first `rel` counts (RFC 8288, section 3.3). It can contain several relations.
    const relations = found.find(([name]) => name === 'rel')?.[1] ?? ''
    if (relations.toLowerCase().split(/\s+/).includes('next')) return target
  }
  return null
}

/** Matches a target in angle brackets and its parameters, up to the comma before the next link. */
const LINK = /<([^<>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)/g

const PARAMETER = /;\s*([^\s=;,]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?/g
