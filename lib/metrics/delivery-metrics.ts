import type { ClaimStep, LoopStep, PurgeStep, ResultStep, TracedResult } from '../base/tracing.ts'
import { NOTICE_LINES, type Notice } from '../webhooks/notices.ts'
import { createHistogram, createNumbers, type Histogram, type Numbers, type Series } from './instruments.ts'
import type { Meter } from './meter.ts'

/** Metrics for this process's delivery loops. */
export interface DeliveryMetrics {
  readonly metrics: readonly (Numbers | Histogram)[]
  note(step: LoopStep): void
  /** Counts a notice. For `delivery_failed`, every delivery counts. */
  noteNotice(notice: Notice): void
}

/** Bucket bounds in seconds. Attempts time out after 10 s. */
const ATTEMPT_BOUNDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** Bucket bounds, in seconds, for the loop's statements. */
const STATEMENT_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

const STEPS: readonly LoopStep['kind'][] = ['claim', 'results', 'purge']

/** Creates the metrics of the delivery loops. */
export function createDeliveryMetrics(meter: Meter | undefined): DeliveryMetrics {
  const durations = (name: string, help: string, bounds: readonly number[]): Histogram =>
    createHistogram({ name: `business_api.${name}.duration`, help, unit: 's' }, bounds, meter)
  const attemptDurations = durations(
    'attempt',
    'Duration of an attempt, from the name lookup to the last byte, in seconds.',
    ATTEMPT_BOUNDS,
  )
  const claimDurations = durations(
    'claim',
    'Duration of a claim of due deliveries, in seconds.',
    STATEMENT_BOUNDS,
  )
  const writeDurations = durations(
    'result_write',
    'Duration of writing up to 200 attempt results, in seconds.',
    STATEMENT_BOUNDS,
  )
  const numbers = (name: string, unit: string, help: string, kind: Numbers['kind'] = 'counter'): Numbers =>
    createNumbers(kind, { name: `business_api.${name}`, help, unit })
  const attempts = numbers(
    'attempts',
    '{attempt}',
    'Recorded webhook delivery attempts by outcome and response class.',
  )
  const claimed = numbers('claimed_deliveries', '{delivery}', 'Deliveries claimed by this process.')
  const lost = numbers(
    'lost_results',
    '{attempt}',
    'Attempt results dropped because another process had taken over the claim.',
  )
  const failures = numbers(
    'loop_failures',
    '{statement}',
    'Failed claims, result writes and parts of the purge.',
  )
  const notices = numbers('notices', '{notice}', 'Notices for operators by kind.')
  const lag = numbers(
    'retention_lag',
    's',
    "How late the purge of old events was at this process's last part, in seconds.",
    'gauge',
  )

  // Start these series at 0 so the first failure shows up as an increase.
  for (const step of STEPS) failures.series({ step })
  for (const kind of Object.keys(NOTICE_LINES)) notices.series({ kind })

  const outcomes = new Map<string, Map<string, Series>>()

  function attemptCount({ outcome, status }: TracedResult): Series {
    const answer = answerClass(status)
    const known = outcomes.get(outcome)?.get(answer)
    if (known) return known
    const made = attempts.series({ outcome, answer })
    outcomes.set(outcome, (outcomes.get(outcome) ?? new Map<string, Series>()).set(answer, made))
    return made
  }

  function noteClaim({ durationMs, deliveries, hasFailed }: ClaimStep): void {
    if (hasFailed) failures.series({ step: 'claim' }).value++
    claimDurations.series().observe(durationMs)
    claimed.series().value += deliveries
  }

  function noteResults(step: ResultStep): void {
    if (step.hasFailed) failures.series({ step: 'results' }).value++
    writeDurations.series().observe(step.durationMs)
    const ofAttempts = attemptDurations.series()
    for (const result of step.results) {
      attemptCount(result).value++
      ofAttempts.observe(result.durationMs)
    }
    lost.series().value += step.lost
  }

  function notePurge({ hasFailed, lagMs }: PurgeStep): void {
    if (hasFailed) failures.series({ step: 'purge' }).value++
    if (lagMs !== null) lag.series().value = lagMs / 1000
  }

  return {
    metrics: [
      attempts,
      attemptDurations,
      claimDurations,
      writeDurations,
      claimed,
      lost,
      failures,
      notices,
      lag,
    ],
    note(step) {
      if (step.kind === 'claim') noteClaim(step)
      else if (step.kind === 'results') noteResults(step)
      else notePurge(step)
    },
    noteNotice(notice) {
      notices.series({ kind: notice.kind }).value += notice.kind === 'delivery_failed' ? notice.count : 1
    },
  }
}

const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx']

/** Returns `1xx` to `5xx`, or `none` if there was no response. Nonstandard statuses count as 5xx. */
function answerClass(status: number | null): string {
  return status === null ? 'none' : (CLASSES[Math.min(5, Math.floor(status / 100)) - 1] ?? 'none')
}
