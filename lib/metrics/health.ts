import type { LoopHealth } from '../webhooks/loop-health.ts'
import type { ResolvedMetricsOptions } from './metrics-options.ts'
import type { QueueReading } from './queue-watch.ts'

/** The result of a single health check. */
export interface HealthCheck {
  /** `store` checks that the database responds, `loop` that this process's delivery loop is claiming. */
  readonly name: 'store' | 'loop'
  readonly isHealthy: boolean
  /** For operators. Never includes secrets, hostnames, usernames or organizations. May change between versions. */
  readonly message: string
}

/** A process's health, for use in a readiness check. */
export interface Health {
  /** `true` if all checks are healthy. */
  readonly isHealthy: boolean
  readonly checks: readonly HealthCheck[]
}

/** Runs all health checks. Never throws. */
export function judgeHealth(
  readings: readonly QueueReading[],
  { loop: loops, maxClaimAgeMs }: Pick<ResolvedMetricsOptions, 'loop' | 'maxClaimAgeMs'>,
): Health {
  const ofLoops = loops.map((loop) => checkLoop(readLoop(loop), maxClaimAgeMs))
  // Use the healthiest shard, since a process that lost one shard can still serve the others.
  const checks = [readings.map(checkStore), ofLoops].flatMap(
    (ofShards) => ofShards.find(({ isHealthy }) => isHealthy) ?? ofShards.slice(0, 1),
  )
  return { isHealthy: checks.every(({ isHealthy }) => isHealthy), checks }
}

/** Returns a loop's health, or `null` if `health` throws. */
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
