import type { ClaimedDelivery, ClaimRequest } from '../../webhooks/deliveries.ts'
import type { ForEachOrganization } from './each-organization.ts'

// Claims of organizations whose answer was lost. The node may have carried out such a claim all the same, or may do so later: nobody
// attempts its deliveries, and each would wait for the end of its lease and lose an attempt. So the claims are given back.

/** A delivery in the answer to a claim. */
export type ClaimedId = Pick<ClaimedDelivery, 'organizationId' | 'id'>

/** Remembers the claims without an answer, of all calls of a process. */
export interface UnansweredClaims {
  /** Begins a call of the claim. The claims of earlier calls that failed under the same token count as claims of this call. */
  begin(request: ClaimRequest): SentClaims
  /** Gives back what is due for it. Never fails: the leases end in any case, and no claim must fail because of an earlier one. */
  giveBack(): Promise<void>
}

/** The claims that a call has sent, each of one organization. */
export interface SentClaims {
  noteSent(organizationId: string): void
  /** Notes that a claim had no answer, or was sent twice: the first may then end after the second. */
  noteUnanswered(organizationId: string): void
  /** Ends the call: what claims without an answer hold is given back later, without the deliveries that the call returns. */
  end(returned: readonly ClaimedId[]): void
  /** Ends a call that returns nothing: the loop repeats the call under the same token. */
  fail(): void
}

/** Time between two tries to give back what a claim holds, in milliseconds: most statements have ended before the first. */
const TRY_AGAIN_MS = 5000

/** A claim of an organization without an answer. */
interface UnansweredClaim {
  readonly organizationId: string
  readonly token: string
  /** The ids of the deliveries that the call has returned. */
  readonly kept: readonly string[]
  /** When the rest is given back next, and when the lease of the claim has ended, on the monotonic clock. */
  tryAt: number
  readonly leaseEndsAt: number
}

/** Creates the memory of claims without an answer. */
export function createUnansweredClaims(forEach: ForEachOrganization): UnansweredClaims {
  const unanswered = new Set<UnansweredClaim>()
  /** The organizations of failed calls, by token. */
  const failed = new Map<string, readonly string[]>()

  return {
    begin({ token, leaseMs }) {
      const sent = new Set<string>()
      /** When an answer was given up, by organization. */
      const missed = new Map<string, number>()
      const noteUnanswered = (organizationId: string): void => {
        sent.add(organizationId)
        missed.set(organizationId, performance.now())
      }
      failed.get(token)?.forEach(noteUnanswered)
      return {
        noteSent: (organizationId) => void sent.add(organizationId),
        noteUnanswered,
        end(returned) {
          failed.delete(token)
          for (const [organizationId, missedAt] of missed) {
            const own = returned.filter((delivery) => delivery.organizationId === organizationId)
            unanswered.add({
              organizationId,
              token,
              kept: own.map(({ id }) => id),
              tryAt: missedAt + TRY_AGAIN_MS,
              leaseEndsAt: missedAt + leaseMs,
            })
          }
        },
        fail: () => void failed.set(token, [...sent]),
      }
    },

    async giveBack() {
      const now = performance.now()
      for (const claim of unanswered) if (now > claim.leaseEndsAt) unanswered.delete(claim)
      const due = [...unanswered].filter(({ tryAt }) => now > tryAt)
      if (due.length === 0) return
      for (const claim of due) claim.tryAt = now + TRY_AGAIN_MS
      try {
        const { answered } = await forEach<UnansweredClaim, number>(
          due,
          ({ organizationId, token, kept }, sql) => sql`
            business_api.release_claim_of(${organizationId}::text, ${token}::text, ${JSON.stringify(kept)}::text::jsonb)`,
        )
        // None is released while the claim is still under way: it is tried again until the lease has ended.
        for (const { item: claim, answer: released } of answered) if (released > 0) unanswered.delete(claim)
      } catch {}
    },
  }
}
