import type { ApiKeyStore } from '../access/api-keys.ts'
import { flag, type OptionReaders, type ReadBy, readEach, whole } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { DeliveryStore } from '../webhooks/deliveries.ts'
import type { LoopHealth } from '../webhooks/loop-health.ts'
import type { Meter } from './meter.ts'

/** The part of a store used by metrics. Any `BusinessApiStore` will do. */
export interface MetricsStore extends Pick<BusinessApiStore, 'connectionUse'> {
  readonly deliveries: Pick<DeliveryStore, 'countQueue'>
  readonly apiKeys: Pick<ApiKeyStore, 'identify'>
  /** The shards if the store has any. Metrics of the queue, connections and loops then have a `shard` label. */
  readonly shards?: readonly { readonly name: string; readonly store: Omit<MetricsStore, 'shards'> }[]
}

/** The part of a delivery loop used by metrics. */
export interface ObservedLoop {
  health(): LoopHealth
}

/** Options of `createMetrics`. Each option is read once. */
export interface MetricsOptions {
  /**
   * The delivery loop of this process, which is included in `health()`. For a sharded store, pass one loop per shard in
   * the same order. Not needed if the process doesn't run a loop.
   */
  loop?: ObservedLoop | readonly ObservedLoop[] | undefined
  /** An OpenTelemetry meter that receives all metrics, for example `metrics.getMeter('business-api-kit')`. Optional. */
  meter?: Meter | undefined
  /**
   * Whether to count the delivery queue. It's the same for all processes, so only one needs to do this. Set to `false`
   * if the database role isn't allowed to read deliveries (the role that only runs the API). Defaults to `true`.
   */
  countQueue?: boolean | undefined
  /** How long to cache queue counts and the store's health, in milliseconds. Defaults to 5000. */
  maxAgeMs?: number | undefined
  /** How long `text()` and `health()` wait for the store, in milliseconds. Defaults to 2000. */
  timeoutMs?: number | undefined
  /** Age of the last successful claim at which the loop is unhealthy, in milliseconds. Defaults to 60,000. */
  maxClaimAgeMs?: number | undefined
}

const READERS = {
  loop: readLoops,
  meter: (given) => given,
  countQueue: flag(true),
  maxAgeMs: whole(5000, { min: 0 }),
  timeoutMs: whole(2000),
  maxClaimAgeMs: whole(60_000),
} satisfies OptionReaders<MetricsOptions>

/** The options after validation and with defaults applied. */
export type ResolvedMetricsOptions = ReadBy<typeof READERS>

/**
 * Applies defaults and checks the options.
 *
 * @throws `TypeError` or `RangeError` naming the invalid option
 */
export function resolveMetricsOptions(options: MetricsOptions): ResolvedMetricsOptions {
  return readEach(options, READERS)
}

function readLoops(given: ObservedLoop | readonly ObservedLoop[] = []): readonly ObservedLoop[] {
  const loops = [given].flat()
  if (loops.every((loop) => typeof loop.health === 'function')) return loops
  throw new TypeError(
    "Cannot use option 'loop' because it has no health(): pass the result of createDeliveryLoop",
  )
}
