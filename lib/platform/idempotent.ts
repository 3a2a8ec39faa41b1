import type { Ids } from '../base/ids.ts'
import { REPLY, type RouteContext, type RouteReply, STATE } from '../resources/own-replies.ts'
import type { ReplyStore } from '../writes/idempotency.ts'

/**
 * Runs the work of your own route once per `Idempotency-Key`, inside your transaction. When it commits, so do your
 * writes, any events published with the same `using(tx)`, the key and the response. If a request has the same key and
 * body as an earlier one, its work doesn't run and it gets exactly the stored response. If the first request is still
 * running, it waits for its commit. Without a key, the work always runs.
 *
 * @param context the context passed to `handle`
 * @param work writes in the same transaction and returns the response. If it throws, the key isn't used up
 * @returns the response, which `handle` should return as it is
 * @throws `Refusal` 422 if the key was used with a different body, 409 if the first request hasn't finished, 401 if the
 * API key was revoked in the meantime, `store_unavailable` if the caller has already received 503, and errors thrown by
 * `work`. All of them must roll back the transaction
 */
export type Idempotent = <Result>(
  context: RouteContext,
  work: () => Result | Promise<Result>,
) => Promise<RouteReply<Result>>

/** Creates `idempotent` for the stored responses of a transaction. */
export function createIdempotent(replies: ReplyStore, ids: Ids): Idempotent {
  return async ({ [STATE]: state }, work) => {
    if (!state)
      throw new TypeError('Cannot use idempotent() because the context is not one that handle() received')
    // Each call has its own id, so a transaction that is retried because its commit was in doubt finds the response and
    // not just its own reservation.
    return { [REPLY]: await state.once(replies, ids('chg'), work) }
  }
}
