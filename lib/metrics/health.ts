import type { LoopHealth } from '../webhooks/loop-health.ts'
import type { ResolvedMetricsOptions } from './metrics-options.ts'
import type { QueueReading } from './queue-watch.ts'

/** The judgement of one part. */
export interface HealthCheck {
  /** `store`: the database answers. `loop`: the delivery loop of this process claims. */
  readonly name: 'store' | 'loop'
  readonly isHealthy: boolean
  /** For an operator; the same form in every version is not promised. Holds no secret, host, user or organization. */
  readonly message: string
}

/** A process's state, for a readiness check. */
export interface Health {
  /** True if every check is healthy. */
  readonly isHealthy: boolean
  readonly checks: readonly HealthCheck[]
}

/** Judges the parts of a process. Never throws. */
export function judgeHealth(
  readings: readonly QueueReading[],
  { loop: loops, maxClaimAgeMs }: Pick<ResolvedMetricsOptions, 'loop' | 'maxClaimAgeMs'>,
): Health {
  const ofLoops = loops.map((loop) => checkLoop(readLoop(loop), maxClaimAgeMs))
  // A process with a lost shard still serves the others: a check is the best of all shards.
  const checks = [readings.map(checkStore), ofLoops].flatMap(
    (ofShards) => ofShards.find(({ isHealthy }) => isHealthy) ?? ofShards.slice(0, 1),
  )
  return { isHealthy: checks.every(({ isHealthy }) => isHealthy), checks }
}

/** Asks a loop; null if the loop of the host throws. */
export function readLoop(loop: { health(): LoopHealth }): LoopHealth | null {
  try {
    return loop.health()
  } catch {
    return null
  }
}

function checkStore({ failure }: QueueReading): HealthCheck {
  return { name: 'store', isHealthy: failure === null, message: `The store ${failure ?? 'answers'}` }
}

function checkLoop(health: LoopHealth | null, maxClaimAgeMs: number): HealthCheck {
  const judge = (isHealthy: boolean, message: string): HealthCheck => ({
    name: 'loop',
    isHealthy,
    message: `The delivery loop ${message}`,
  })
  if (health === null) return judge(false, 'cannot report its health')
  const { state, lastClaimAgoMs, failedClaims, heldBecause = null } = health
  if (state === 'stopped' || state === 'stopping') return judge(false, `is ${state}`)
  if (heldBecause !== null) return judge(false, `waits, because ${heldBecause}`)
  const failed = failedClaims === 0 ? '' : `; ${failedClaims} claims have failed since`
  if (lastClaimAgoMs === null) return judge(false, `has not claimed yet${failed}`)
  const seconds = (lastClaimAgoMs / 1000).toFixed(1)
  return judge(lastClaimAgoMs <= maxClaimAgeMs, `claimed ${seconds} s ago${failed}`)
}
