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

/** The state of a process, for a check of readiness. */
export interface Health {
  /** True if every check is healthy. */
  readonly isHealthy: boolean
  readonly checks: readonly HealthCheck[]
}

/** Judges the parts of a process. Never throws. */
export function judgeHealth(
  reading: QueueReading,
  loop: { health(): LoopHealth } | undefined,
  { maxClaimAgeMs }: Pick<ResolvedMetricsOptions, 'maxClaimAgeMs'>,
): Health {
  const checks = [checkStore(reading), ...(loop ? [checkLoop(readLoop(loop), maxClaimAgeMs)] : [])]
  return { isHealthy: checks.every(({ isHealthy }) => isHealthy), checks }
}

/** Joins the judgements of shards: a process with one lost shard still serves the others, so each check is the best of all shards. */
export function joinHealth(shards: readonly Health[]): Health {
  const all = shards.flatMap(({ checks }) => checks)
  const checks = (['store', 'loop'] as const).flatMap((name) => {
    const own = all.filter((check) => check.name === name)
    return own.find(({ isHealthy }) => isHealthy) ?? own[0] ?? []
  })
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
  if (health === null) return judge(false, 'cannot be asked')
  const { state, lastClaimAgoMs, failedClaims } = health
  if (state === 'stopped' || state === 'stopping') return judge(false, `is ${state}`)
  const failed = failedClaims === 0 ? '' : `; ${failedClaims} claims have failed since`
  if (lastClaimAgoMs === null) return judge(false, `has not claimed yet${failed}`)
  const seconds = (lastClaimAgoMs / 1000).toFixed(1)
  return judge(lastClaimAgoMs <= maxClaimAgeMs, `claimed ${seconds} s ago${failed}`)
}
