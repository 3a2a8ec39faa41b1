import * as v from 'valibot'
import * as field from './fields.ts'
import { whole } from './host-input.ts'
import { type IdKind, isIdOf } from './ids.ts'

// Keyset pagination: a page begins after an id, so a page deep in a list costs the same as the first page, and records that
// are added meanwhile move nothing.

/** Selects the part of a list to show. */
export interface PageQuery {
  /** 1 to 200. Default 50. */
  readonly limit?: number | undefined
  /** The `next` of the previous page. Default null: from the newest. */
  readonly before?: string | null | undefined
}

/** A part of a list. */
export interface Page<Item> {
  /** Newest first, unless the call says otherwise. */
  readonly data: readonly Item[]
  /** The `before` of the following page; null: this page is the last. */
  readonly next: string | null
}

/**
 * The fields of a {@link PageQuery} for a list of ids that the library makes. A string that is not an id is rejected, not searched for:
 * any string sorts somewhere, often after every id, so a mistaken cursor would give the first page again and again.
 *
 * @param kind of the items
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

/** The fields of a {@link PageQuery} for a list of records, to which a host can give ids of its own. */
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
 * Makes a page from a list with one item more than the page shows; the additional item tells that another page follows.
 *
 * @param list gives at most as many items as its argument says
 */
export async function readPage<Item extends { readonly id: string }>(
  limit: number,
  list: (limit: number) => Promise<readonly Item[]>,
): Promise<Page<Item>> {
  const some = await list(limit + 1)
  const data = some.slice(0, limit)
  return { data, next: some.length > limit ? (data.at(-1)?.id ?? null) : null }
}
