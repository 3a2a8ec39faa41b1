import type { Ids } from '../base/ids.ts'
import { REPLY, type RouteContext, type RouteReply, STATE } from '../resources/own-replies.ts'
import type { ReplyStore } from '../writes/idempotency.ts'

/**
 * Runs your own route's work once per `Idempotency-Key`, inside your transaction. Your writes, any events published
 * through the same `using(tx)`, the key and the response are all committed together. A later request with the same key
 * and body doesn't run the work, and gets exactly the stored response. If the first request is still running, later
 * ones wait for its commit. Without a key, the work always runs.
 *
 * @param context the context that `handle` received
 * @param work writes in the same transaction and returns the response. If it throws, the key can be used again
 * @returns the response, to be returned from `handle` as is
 * @throws `Refusal` with status 422 if the key was used with a different body, 409 if the first request hasn't
 * finished, or 401 if the API key was revoked in the meantime. `store_unavailable` if the caller has already received a
 * 503. Also throws anything that `work` throws. You must roll back the transaction on any of these
 */
export type Idempotent = <Result>(
  context: RouteContext,
  work: () => Result | Promise<Result>,
) => Promise<RouteReply<Result>>

/** Creates `idempotent` for a transaction's stored responses. */
export function createIdempotent(replies: ReplyStore, ids: Ids): Idempotent {
  return async ({ [STATE]: state }, work) => {
    if (!state)
      throw new TypeError('Cannot use idempotent() because the context is not one that handle() received')
    // Use a new id per call. If a transaction is retried because we don't know whether it was committed, it should find
    // the response and not just its own reservation.
    return { [REPLY]: await state.once(replies, ids('chg'), work) }
  }
}
