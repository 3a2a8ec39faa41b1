import type { Ids } from '../base/ids.ts'
import { refusals } from '../http/refusal.ts'
import { createReply, type RouteContext, type RouteReply, stateOf } from '../resources/own-replies.ts'
import type { ReplyStore } from '../writes/idempotency.ts'

/**
 * Does the work of a host's own route once for an `Idempotency-Key`, in the host's transaction: reserves the key, runs the work, checks
 * the result by the route's `response` and stores the reply. The commit decides about all of it: the host's writes, the events that the
 * work publishes with the same `using(tx)`, the key and the reply. A request with the same key and body gets the stored reply byte for
 * byte, and the work does not run; a request beside the first one waits for its commit. Without a key the work runs each time.
 *
 * @param context as `handle` was given it
 * @param work writes in the same transaction, and returns a value by `response`. If it throws, nothing is stored
 * @returns the reply, which `handle` returns as it is
 * @throws `Refusal` 422 for a key that was used with another body, 409 for one whose first request has not ended, 401 for an API key that
 *   was revoked meanwhile; `BusinessApiError` with code `store_unavailable` once the caller has had 503; every error of the work. Let each
 *   roll the transaction back
 */
export type Idempotent = <Result>(
  context: RouteContext,
  work: () => Result | Promise<Result>,
) => Promise<RouteReply<Result>>

/** Creates `idempotent` for the replies of a transaction. */
export function createIdempotent(replies: ReplyStore, ids: Ids): Idempotent {
  return async (context, work) => {
    const { organizationId, apiKey } = context
    const { reserve, render, checkTime, operationId } = stateOf(context)
    if (reserve === null)
      throw new TypeError(
        `Cannot use idempotent() in '${operationId}' because its route takes no Idempotency-Key`,
      )
    checkTime()
    // A name for each call: a transaction that is run again after its commit was in doubt must find the reply, and not its own reservation.
    const request = { organizationId, apiKeyId: apiKey.id, writeId: ids('chg'), idempotency: reserve() }
    const outcome = await replies.once(request, async () => {
      const body = await render(await work())
      checkTime()
      return body
    })
    switch (outcome.outcome) {
      case 'created':
        return createReply({ headers: {}, body: outcome.reply })
      case 'replayed':
        return createReply({ headers: { 'Idempotent-Replayed': 'true' }, body: outcome.reply })
      case 'mismatch':
        throw refusals.keyReused()
      case 'in_progress':
        throw refusals.inProgress()
      case 'unauthenticated':
        throw refusals.invalidKey()
    }
  }
}
