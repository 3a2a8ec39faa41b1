import type { Ids } from '../base/ids.ts'
import { REPLY, type RouteContext, type RouteReply, STATE } from '../resources/own-replies.ts'
import type { ReplyStore } from '../writes/idempotency.ts'

/**
 * Does the work of the host's own route once for an `Idempotency-Key`, in the host's transaction, whose commit decides about all of it: the
 * host's writes, the events that the work publishes by the same `using(tx)`, the key and the reply. A request with the same key and body
 * gets the stored reply byte for byte, and its work does not run; beside the first one it waits for the commit. Without a key the work
 * runs each time.
 *
 * @param context as `handle` was given it
 * @param work writes in the same transaction, and returns a value by `response`. If it throws, the key is as it was
 * @returns the reply, which `handle` returns as it is
 * @throws `Refusal` 422 for a key that was used with another body, 409 for one whose first request has not ended, 401 for an API key that
 *   was revoked meanwhile; `store_unavailable` once the caller has had 503; every error of the work. Each must roll the transaction back
 */
export type Idempotent = <Result>(
  context: RouteContext,
  work: () => Result | Promise<Result>,
) => Promise<RouteReply<Result>>

/** Creates `idempotent` for the replies of a transaction. */
export function createIdempotent(replies: ReplyStore, ids: Ids): Idempotent {
  return async ({ [STATE]: state }, work) => {
    if (!state)
      throw new TypeError('Cannot use idempotent() because the context is not one that handle() received')
    // A name for each call: a transaction that runs again, because its commit was in doubt, must find the reply and not its own reservation.
    return { [REPLY]: await state.once(replies, ids('chg'), work) }
  }
}
