import type { LoopHealth } from '../webhooks/loop-health.ts'
import type { ResolvedMetricsOptions } from './metrics-options.ts'
import type { QueueReading } from './queue-watch.ts'

/** The result of checking one part of a process. */
export interface HealthCheck {
  /** `store` checks that the database responds, `loop` that the delivery loop of this process is claiming. */
  readonly name: 'store' | 'loop'
  readonly isHealthy: boolean
  /** For operators. Contains no secrets, hosts, users or organizations. The wording may change between versions. */
  readonly message: string
}

/** The state of a process for use in a readiness check. */
export interface Health {
  /** `true` if all checks are healthy. */
  readonly isHealthy: boolean
  readonly checks: readonly HealthCheck[]
}

/** Checks the parts of a process. Never throws. */
export function judgeHealth(
  readings: readonly QueueReading[],
  { loop: loops, maxClaimAgeMs }: Pick<ResolvedMetricsOptions, 'loop' | 'maxClaimAgeMs'>,
): Health {
  const ofLoops = loops.map((loop) => checkLoop(readLoop(loop), maxClaimAgeMs))
  // Use the best result of all shards. A process that has lost a shard can still serve the rest.
  const checks = [readings.map(checkStore), ofLoops].flatMap(
    (ofShards) => ofShards.find(({ isHealthy }) => isHealthy) ?? ofShards.slice(0, 1),
  )
  return { isHealthy: checks.every(({ isHealthy }) => isHealthy), checks }
}

/** Returns the health of a loop, or `null` if it throws. */
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
