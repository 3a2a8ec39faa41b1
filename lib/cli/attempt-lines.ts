import { type AttemptTrace, channels } from '../base/tracing.ts'
import { DESTINATION_REFUSED } from '../sender/send-error.ts'
import { formatDuration, formatNow } from './durations.ts'
import { formatCount } from './progress.ts'
import type { Output } from './terminal.ts'
import { visible } from './text.ts'

/** Writing to a terminal holds up the process: more lines would slow the deliveries down, and cannot be read. */
const LINES_PER_SECOND = 50
const SECOND_MS = 1000

const REFUSED_ADVICE = `${DESTINATION_REFUSED}: for development, --allow-private-networks and --allow-http allow more destinations`

/**
 * Writes a line for each attempt of this process: time, answer, duration, type, delivery and organization. Attempts beyond
 * {@link LINES_PER_SECOND} are only counted.
 *
 * @returns a function that ends the lines
 */
export function writeAttempts(stdout: Output): () => void {
  const startedAt = new WeakMap<object, number>()
  let second = 0
  let written = 0
  let unwritten = 0
  let hasAdvised = false

  function writeLine(line: string): void {
    stdout.write(`${visible(line)}\n`)
  }

  function writeUnwritten(): void {
    if (unwritten > 0) writeLine(`… and ${formatCount(unwritten)} more`)
    written = 0
    unwritten = 0
  }

  function writeAttempt(attempt: AttemptTrace): void {
    const now = Math.floor(performance.now() / SECOND_MS)
    if (now !== second) writeUnwritten()
    second = now
    if (written >= LINES_PER_SECOND) {
      unwritten++
      return
    }
    written++
    writeLine(describeAttempt(attempt, performance.now() - (startedAt.get(attempt) ?? performance.now())))
    if (attempt.error !== DESTINATION_REFUSED || hasAdvised) return
    hasAdvised = true
    writeLine(REFUSED_ADVICE)
  }

  const ignore = (): void => {}
  const subscribers = {
    start: (attempt: AttemptTrace) => void startedAt.set(attempt, performance.now()),
    end: ignore,
    asyncStart: ignore,
    asyncEnd: writeAttempt,
    error: ignore,
  }
  channels.attempt.subscribe(subscribers)
  return () => {
    channels.attempt.unsubscribe(subscribers)
    writeUnwritten()
  }
}

/** `09:00:01Z  failed: 503  34 ms  invoice.paid  dlv_01K…  org_42  attempt 2` */
function describeAttempt(attempt: AttemptTrace, durationMs: number): string {
  const { status = null, error, type, deliveryId, organizationId, attempt: number } = attempt
  const isDelivered = status !== null && status >= 200 && status < 300
  const answer = String(status ?? error ?? 'no answer')
  const parts = [
    formatNow(),
    isDelivered ? answer : `failed: ${answer}`,
    formatDuration(durationMs),
    type,
    deliveryId,
    organizationId,
    ...(number > 1 ? [`attempt ${number}`] : []),
  ]
  return parts.join('  ')
}
