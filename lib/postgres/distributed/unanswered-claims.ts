import type { ClaimedDelivery, ClaimRequest } from '../../webhooks/deliveries.ts'
import type { ForEachOrganization } from './each-organization.ts'

// A call sends a claim for each organization. When the answer is lost, the node may have carried the claim out, or may do so later. No
// process attempts the deliveries of such a claim: each would wait for the end of the lease and lose an attempt. So a later call gives
// these deliveries back.

/** A delivery in the answer to a claim. */
export type ClaimedId = Pick<ClaimedDelivery, 'organizationId' | 'id'>

/** Remembers the claims without an answer, of all calls of a process. */
export interface UnansweredClaims {
  /** Begins a call. The claims of earlier calls that failed under the same token count as claims of this call. */
  begin(request: ClaimRequest): SentClaims
  /** Gives back the deliveries of claims for which the time has come. Never fails. */
  giveBack(): Promise<void>
}

/** The claims that a call has sent. */
export interface SentClaims {
  noteSent(organizationId: string): void
  /** Notes that a claim had no answer. Without effect for a claim that was not sent. */
  noteUnanswered(organizationId: string): void
  /** Ends the call. Later, deliveries of claims without an answer are given back, except the deliveries that the call returns. */
  end(returned: readonly ClaimedId[]): void
  /** Ends a call that returns nothing: the loop repeats the call under the same token. */
  fail(): void
}

/** Time between two tries to give deliveries back, in milliseconds: most statements have ended before the first. */
const TRY_AGAIN_MS = 5000

/** A claim of an organization without an answer. */
interface UnansweredClaim {
  readonly organizationId: string
  readonly token: string
  /** The ids of the deliveries that the call has returned. */
  readonly kept: readonly string[]
  /** The next try, on the monotonic clock. */
  tryAt: number
  /** The end of the lease, on the monotonic clock: nothing is left to give back. */
  readonly leaseEndsAt: number
}

/** A call that failed. */
interface FailedCall {
  readonly organizationIds: readonly string[]
  readonly leaseEndsAt: number
}

/** Creates the memory of claims without an answer. */
export function createUnansweredClaims(forEach: ForEachOrganization): UnansweredClaims {
  const unanswered = new Set<UnansweredClaim>()
  /** By token. */
  const failed = new Map<string, FailedCall>()

  function forgetEnded(now: number): void {
    for (const claim of unanswered) if (now > claim.leaseEndsAt) unanswered.delete(claim)
    for (const [token, { leaseEndsAt }] of failed) if (now > leaseEndsAt) failed.delete(token)
  }

  return {
    begin({ token, leaseMs }) {
      const sent = new Set<string>()
      /** The time at which the call gave an answer up, by organization. */
      const missed = new Map<string, number>()
      const noteSent = (organizationId: string): void => void sent.add(organizationId)
      const noteUnanswered = (organizationId: string): void => {
        if (sent.has(organizationId)) missed.set(organizationId, performance.now())
      }
      for (const organizationId of failed.get(token)?.organizationIds ?? []) {
        noteSent(organizationId)
        noteUnanswered(organizationId)
      }
      return {
        noteSent,
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
        fail: () =>
          void failed.set(token, { organizationIds: [...sent], leaseEndsAt: performance.now() + leaseMs }),
      }
    },

    async giveBack() {
      const now = performance.now()
      forgetEnded(now)
      const due = [...unanswered].filter(({ tryAt }) => now > tryAt)
      if (due.length === 0) return
      for (const claim of due) claim.tryAt = now + TRY_AGAIN_MS
      try {
        const { answered } = await forEach<UnansweredClaim, number>(
          due,
          ({ organizationId, token, kept }, sql) => sql`
            business_api.release_claim_of(${organizationId}::text, ${token}::text, ${JSON.stringify(kept)}::text::jsonb)`,
        )
        // Nothing is released while the claim is still under way: the next try may find the deliveries.
        for (const { item: claim, answer: released } of answered) if (released > 0) unanswered.delete(claim)
      } catch {
        // The leases end in any case, and no claim must fail because of an earlier claim.
      }
    },
  }
}
