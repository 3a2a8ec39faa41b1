import * as v from 'valibot'
import * as field from './fields.ts'
import { whole } from './host-input.ts'
import { type IdKind, isIdOf } from './ids.ts'

// Keyset pagination. Pages start after an id, so page 1,000 costs the same as page 1, and new records
// don't shift pages.

/** Selects a page of a list. */
export interface PageQuery {
  /** From 1 to 200. Defaults to 50. */
  readonly limit?: number | undefined
  /** The `next` value from the previous page. Defaults to `null`, which starts with the newest item. */
  readonly before?: string | null | undefined
}

/** A page of a list. */
export interface Page<Item> {
  /** Newest first, unless the call says otherwise. */
  readonly data: readonly Item[]
  /** The `before` value for the next page, or `null` on the last page. */
  readonly next: string | null
}

/**
 * Returns {@link PageQuery} fields for a list with library-generated ids. We reject other strings because any string
 * sorts somewhere, often after every id, and a client could get the first page over and over.
 *
 * @param kind the kind of items in the list
 */
export function pageEntries(kind: IdKind) {
  const requirement = `must be null, or the next of an earlier page: ${kind}_ and 26 letters and digits`
  return pageEntriesOf(
    v.pipe(
      v.string(requirement),
      v.check((id) => isIdOf(kind, id), requirement),
    ),
  )
}

/** Returns {@link PageQuery} fields for a list of records, whose ids can be chosen by the host. */
export function recordPageEntries() {
  return pageEntriesOf(field.text(1, 64))
}

function pageEntriesOf<Id extends v.GenericSchema<string, string>>(id: Id) {
  return {
    limit: v.exactOptional(whole(1, 200), 50),
    before: v.exactOptional(v.nullable(id), null),
  }
}

/**
 * Reads a page by requesting one more item than needed. If that item exists, there's another page.
 *
 * @param list returns up to the given number of items
 */
export async function readPage<Item extends { readonly id: string }>(
  limit: number,
  list: (limit: number) => Promise<readonly Item[]>,
): Promise<Page<Item>> {
  const some = await list(limit + 1)
  const data = some.slice(0, limit)
  return { data, next: some.length > limit ? (data.at(-1)?.id ?? null) : null }
}
