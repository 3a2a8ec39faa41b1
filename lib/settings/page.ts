import * as v from 'valibot'
import { whole } from '../base/host-input.ts'
import { type IdKind, isIdOf } from '../base/ids.ts'

/** Which part of a log is to be shown. */
export interface PageQuery {
  /** 1 to 200. Default 50. */
  readonly limit?: number | undefined
  /** The `next` of the page before. Default null: from the newest. */
  readonly before?: string | null | undefined
}

/** A part of a log. */
export interface Page<Item> {
  /** Newest first. */
  readonly data: readonly Item[]
  /** What to pass as `before` for the page that follows; null: there is none. */
  readonly next: string | null
}

/**
 * The fields of a {@link PageQuery}. What is no id is refused, not looked for: any text sorts somewhere, and many sort
 * after every id, so that a mistaken cursor would give the first page again and again.
 *
 * @param kind of the items
 */
export function pageEntries(kind: IdKind) {
  const requirement = `must be null, or the next of a page before: ${kind}_ and 26 letters and digits`
  return {
    limit: v.optional(whole(1, 200), 50),
    before: v.nullish(
      v.pipe(
        v.string(requirement),
        v.check((id) => isIdOf(kind, id), requirement),
      ),
      null,
    ),
  }
}

/**
 * Makes a page of one item more than it shows, which tells whether another follows.
 *
 * @param list gives that many items at most
 */
export async function readPage<Item extends { readonly id: string }>(
  limit: number,
  list: (limit: number) => Promise<readonly Item[]>,
): Promise<Page<Item>> {
  const some = await list(limit + 1)
  const data = some.slice(0, limit)
  return { data, next: some.length > limit ? (data.at(-1)?.id ?? null) : null }
}
