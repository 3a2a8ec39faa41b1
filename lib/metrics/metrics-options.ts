import type { ApiKeyStore } from '../access/api-keys.ts'
import { flag, type OptionReaders, type ReadBy, readEach, readHaving, whole } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { DeliveryStore } from '../webhooks/deliveries.ts'
import type { LoopHealth } from '../webhooks/loop-health.ts'
import type { Meter } from './meter.ts'

/** The parts of a store that metrics need. You can pass any `BusinessApiStore`. */
export interface MetricsStore extends Pick<BusinessApiStore, 'connectionUse'> {
  readonly deliveries: Pick<DeliveryStore, 'countQueue'>
  readonly apiKeys: Pick<ApiKeyStore, 'identify'>
  /** The shards of a sharded store. Queue, connection and loop metrics then have a `shard` label. */
  readonly shards?: readonly { readonly name: string; readonly store: Omit<MetricsStore, 'shards'> }[]
}

/** The part of a delivery loop that metrics need. */
export interface ObservedLoop {
  health(): LoopHealth
}

/** Options for `createMetrics`. Each option is read once. */
export interface MetricsOptions {
  /**
   * This process's delivery loop, to include in `health()`. For a sharded store, pass one loop per shard in the same
   * order. Leave this out if the process doesn't run a loop.
   */
  loop?: ObservedLoop | readonly ObservedLoop[] | undefined
  /** An OpenTelemetry meter that receives all metrics, for example `metrics.getMeter('business-api-kit')`. Optional. */
  meter?: Meter | undefined
  /**
   * Whether to count the delivery queue. All processes share the same queue, so only one of them needs to do this. Set
   * this to `false` if the database role can't read deliveries (the role that only runs the API). Defaults to `true`.
   */
  countQueue?: boolean | undefined
  /** How long to cache queue counts and the store's health, in milliseconds. Defaults to 5000. */
  maxAgeMs?: number | undefined
  /** How long `text()` and `health()` wait for the store, in milliseconds. Defaults to 2000. */
  timeoutMs?: number | undefined
  /** Maximum time since the last successful claim before the loop is unhealthy, in milliseconds. Defaults to 60,000. */
  maxClaimAgeMs?: number | undefined
}

const READERS = {
  loop: readLoops,
  meter: (given, name) =>
    given === undefined ? given : readHaving(`Option '${name}'`, given, 'createHistogram', 'OpenTelemetry'),
  countQueue: flag(true),
  maxAgeMs: whole(5000, { min: 0 }),
  timeoutMs: whole(2000),
  maxClaimAgeMs: whole(60_000),
} satisfies OptionReaders<MetricsOptions>

/** The validated options with defaults applied. */
export type ResolvedMetricsOptions = ReadBy<typeof READERS>

/**
 * Validates the options and applies the defaults.
 *
 * @throws `TypeError` or `RangeError` naming the invalid option
 */
export function resolveMetricsOptions(options: MetricsOptions): ResolvedMetricsOptions {
  return readEach(options, READERS)
}

function readLoops(given: ObservedLoop | readonly ObservedLoop[] = []): readonly ObservedLoop[] {
  const loops = [given].flat()
  if (loops.every((loop) => typeof loop?.health === 'function')) return loops
  throw new TypeError("Option 'loop' must be the result of createDeliveryLoop, or a list of those")
}
