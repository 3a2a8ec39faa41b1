import { channels, type LoopStep, type TracedResult } from '../base/tracing.ts'
import type { AttemptResult, ClaimRef } from '../webhooks/claims.ts'
import type { DeliveryStore } from '../webhooks/deliveries.ts'
import { nameOf } from './result-writer.ts'

/** The verbs of a store that a loop cannot do without. */
type Steps = Pick<DeliveryStore, 'claim' | 'writeResults' | 'release' | 'continuePurge'>

/** The claims of a loop, for its health. */
export interface ClaimRecord {
  /** When the last claim succeeded, on the monotonic clock in milliseconds; null before the first. */
  readonly succeededAt: number | null
  /** Failed claims since the last successful claim. */
  readonly failures: number
}

/** A loop's verbs, and the results of its claims. */
export interface LoopSteps extends Steps {
  readonly claims: ClaimRecord
}

/** Publishes the steps of a loop on the channel `business-api:loop`, and keeps when the last claim succeeded. */
export function createLoopSteps(deliveries: Steps): LoopSteps {
  const claims: { succeededAt: number | null; failures: number } = { succeededAt: null, failures: 0 }

  return {
    claims,

    async claim(request) {
      const startedAt = performance.now()
      try {
        const answer = await deliveries.claim(request)
        claims.succeededAt = performance.now()
        claims.failures = 0
        const count = answer.deliveries.length + answer.unread.length
        publish(startedAt, (timed) => ({ kind: 'claim', ...timed, hasFailed: false, deliveries: count }))
        return answer
      } catch (error) {
        claims.failures++
        publish(startedAt, (timed) => ({ kind: 'claim', ...timed, hasFailed: true, deliveries: 0 }))
        throw error
      }
    },

    async writeResults(results, limit) {
      const startedAt = performance.now()
      try {
        const report = await deliveries.writeResults(results, limit)
        const { lost } = report
        publish(startedAt, (timed) => ({
          kind: 'results',
          ...timed,
          hasFailed: false,
          results: describeResults(results, lost),
          lost: lost.length,
        }))
        return report
      } catch (error) {
        publish(startedAt, (timed) => ({ kind: 'results', ...timed, hasFailed: true, results: [], lost: 0 }))
        throw error
      }
    },

    release: (refs) => deliveries.release(refs),

    async continuePurge(request) {
      const startedAt = performance.now()
      try {
        const report = await deliveries.continuePurge(request)
        publish(startedAt, (timed) => ({ kind: 'purge', ...timed, hasFailed: false, lagMs: report.lagMs }))
        return report
      } catch (error) {
        publish(startedAt, (timed) => ({ kind: 'purge', ...timed, hasFailed: true, lagMs: null }))
        throw error
      }
    },
  }
}

/** @param describe makes the step; called only when the channel has a subscriber */
function publish(startedAt: number, describe: (timed: { readonly durationMs: number }) => LoopStep): void {
  if (!channels.loop.hasSubscribers) return
  channels.loop.publish(describe({ durationMs: performance.now() - startedAt }))
}

function describeResults(
  results: readonly AttemptResult[],
  lost: readonly ClaimRef[],
): readonly TracedResult[] {
  const lostClaims = new Set(lost.map(nameOf))
  const kept = lost.length === 0 ? results : results.filter((result) => !lostClaims.has(nameOf(result)))
  return kept.map(({ outcome, status, durationMs }) => ({ outcome, status, durationMs }))
}
