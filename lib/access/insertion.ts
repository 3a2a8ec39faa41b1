/**
 * The outcome of inserting a record with an id chosen by the caller.
 *
 * - `inserted`: the record is stored. Also returned if an earlier call already inserted it but its result was lost.
 * - `already_exists`: the id belongs to a different record, which is returned as `item`. `null` if that record was
 *   removed, or if another API key has the same digest.
 * - `limit_reached`: the organization has the maximum number of records.
 *
 * The secret of the new record is only valid if the outcome is `inserted`.
 */
export type Insertion<Item> =
  | { readonly outcome: 'inserted'; readonly item: Item }
  | { readonly outcome: 'already_exists'; readonly item: Item | null }
  | { readonly outcome: 'limit_reached' }
