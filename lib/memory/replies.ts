import type { ReplyOutcome, ReplyStore } from '../writes/idempotency.ts'
import { isInForce } from './admission.ts'
import { judgeKey, storeReply } from './creation.ts'
import type { Memory } from './state.ts'

/**
 * Creates the slice for replies of the host's own work, in memory. There is no transaction: the host's own writes are the host's, and an
 * event that the work publishes stays if the work then fails.
 */
export function createReplyStore(memory: Memory): ReplyStore {
  const running = new Map<string, Promise<unknown>>()

  return {
    async once({ organizationId, apiKeyId, writeId, idempotency }, work) {
      const organization = memory.organization(organizationId)
      const name = JSON.stringify([organizationId, idempotency?.operation, idempotency?.key])
      while (idempotency && running.has(name)) await running.get(name)
      const holder = { memory, organization, recordId: writeId, idempotency, now: memory.clock() }
      const apiKey = organization.apiKeys.get(apiKeyId)
      if (!apiKey || !isInForce(apiKey, holder.now)) return { outcome: 'unauthenticated' }
      const judged = judgeKey(holder)
      if (judged) return judged
      const made = work().then((reply): ReplyOutcome => {
        storeReply({ ...holder, now: memory.clock() }, reply)
        return { outcome: 'created', reply }
      })
      if (idempotency)
        running.set(
          name,
          made.catch(() => {}).finally(() => running.delete(name)),
        )
      return made
    },
  }
}
