import { channels, type LoopStep, type TracedResult } from '../base/tracing.ts'
import type { AttemptResult, ClaimRef } from '../webhooks/claims.ts'
import type { DeliveryStore } from '../webhooks/deliveries.ts'
import { nameOf } from './result-writer.ts'

/** The store methods every loop uses */
type Steps = Pick<DeliveryStore, 'claim' | 'writeResults' | 'release' | 'continuePurge'>

/** A loop's claim stats, used for its health. */
export interface ClaimRecord {
  /** When the last successful claim was made, in monotonic milliseconds, or `null` if there hasn't been one. */
  readonly succeededAt: number | null
  /** Number of failed claims since the last successful one. */
  readonly failures: number
}

/** A loop's store methods and claim stats. */
export interface LoopSteps extends Steps {
  readonly claims: ClaimRecord
}

/** Wraps the store methods to publish each step on the `business-api:loop` channel and to keep track of claims. */
export function createLoopSteps(deliveries: Steps): LoopSteps {
  const claims: { succeededAt: number | null; failures: number } = { succeededAt: null, failures: 0 }

  return {
    claims,

    async claim(request) {
      try {
        const answer = await publishing(
          () => deliveries.claim(request),
          (timed, claimed) => ({
            kind: 'claim',
            ...timed,
            deliveries: claimed ? claimed.deliveries.length + claimed.unread.length : 0,
          }),
        )
        claims.succeededAt = performance.now()
        claims.failures = 0
        return answer
      } catch (error) {
        claims.failures++
        throw error
      }
    },

    writeResults: (results, limit) =>
      publishing(
        () => deliveries.writeResults(results, limit),
        (timed, report) => ({
          kind: 'results',
          ...timed,
          results: report ? describeResults(results, report.lost) : [],
          lost: report?.lost.length ?? 0,
        }),
      ),

    release: (refs) => deliveries.release(refs),

    continuePurge: (request) =>
      publishing(
        () => deliveries.continuePurge(request),
        (timed, report) => ({ kind: 'purge', ...timed, lagMs: report?.lagMs ?? null }),
      ),
  }
}

/** Runs a step and publishes it. @param describe called with `undefined` if the step failed */
async function publishing<Answer extends object>(
  work: () => Promise<Answer>,
  describe: (timed: Pick<LoopStep, 'durationMs' | 'hasFailed'>, answer: Answer | undefined) => LoopStep,
): Promise<Answer> {
  const startedAt = performance.now()
  let answer: Answer | undefined
  try {
    answer = await work()
    return answer
  } finally {
    const timed = { durationMs: performance.now() - startedAt, hasFailed: answer === undefined }
    if (channels.loop.hasSubscribers) channels.loop.publish(describe(timed, answer))
  }
}

function describeResults(
  results: readonly AttemptResult[],
  lost: readonly ClaimRef[],
): readonly TracedResult[] {
  const lostClaims = new Set(lost.map(nameOf))
  const kept = lost.length === 0 ? results : results.filter((result) => !lostClaims.has(nameOf(result)))
  return kept.map(({ outcome, status, durationMs }) => ({ outcome, status, durationMs }))
}
