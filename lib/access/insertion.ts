/**
 * The outcome of inserting a record with an id chosen by the caller.
 *
 * - `inserted`: The record is stored, either by this call or by an earlier call whose result was lost.
 * - `already_exists`: The id is taken by a different record, returned as `item`. `null` if that record was removed, or
 *   if another API key has the same digest.
 * - `limit_reached`: The organization already has the maximum number of records.
 *
 * The new record's secret is only valid if the outcome is `inserted`.
 */
export type Insertion<Item> =
  | { readonly outcome: 'inserted'; readonly item: Item }
  | { readonly outcome: 'already_exists'; readonly item: Item | null }
  | { readonly outcome: 'limit_reached' }
