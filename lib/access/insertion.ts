/**
 * The outcome of inserting a record under an id that the caller has chosen:
 *
 * - `inserted`: the store holds this record. An earlier call for the same insertion, whose result was lost, counts too.
 * - `already_exists`: the id belongs to another record, in `item`; null if the other record was removed, or if another API key has
 *   the digest.
 * - `limit_reached`: the organization already has as many records as the limit allows.
 *
 * Only `inserted` means that the secret of the new record is in use.
 */
export type Insertion<Item> =
  | { readonly outcome: 'inserted'; readonly item: Item }
  | { readonly outcome: 'already_exists'; readonly item: Item | null }
  | { readonly outcome: 'limit_reached' }
