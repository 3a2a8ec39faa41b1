import type { ApiKeyStore } from '../access/api-keys.ts'
import { flag, type OptionReaders, type ReadBy, readEach, whole } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { DeliveryStore } from '../webhooks/deliveries.ts'
import type { LoopHealth } from '../webhooks/loop-health.ts'
import type { Meter } from './meter.ts'

/** The part of a store that metrics use: every `BusinessApiStore` fits. */
export interface MetricsStore extends Pick<BusinessApiStore, 'connectionUse'> {
  readonly deliveries: Pick<DeliveryStore, 'countQueue'>
  readonly apiKeys: Pick<ApiKeyStore, 'identify'>
  /** The shards of a store over shards: the metrics of the queue, the connections and the loops then have a label `shard`. */
  readonly shards?: readonly { readonly name: string; readonly store: Omit<MetricsStore, 'shards'> }[]
}

/** The part of a delivery loop that metrics use. */
export interface ObservedLoop {
  health(): LoopHealth
}

/** Options of `createMetrics`. Each is read once. */
export interface MetricsOptions {
  /**
   * The delivery loop of this process, whose claims belong to `health()`; of a store over shards, a loop for each, in their order. Default
   * none: a process without a loop.
   */
  loop?: ObservedLoop | readonly ObservedLoop[] | undefined
  /** An OpenTelemetry meter, which gets every metric: `metrics.getMeter('business-api-kit')`. Default none. */
  meter?: Meter | undefined
  /**
   * Counts the queue of deliveries, which is the same in every process: one process that counts is enough. Set false where the
   * database role may not read deliveries (the role of the API alone). Default true.
   */
  countQueue?: boolean | undefined
  /** How long counts of the queue and the store's health are reused, in ms. Default 5000. */
  maxAgeMs?: number | undefined
  /** How long `text()` and `health()` wait for the store, in ms. Default 2000. */
  timeoutMs?: number | undefined
  /** Milliseconds since the last successful claim, after which the loop is not healthy. Default 60,000. */
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

/** The options after defaults and checks. */
export type ResolvedMetricsOptions = ReadBy<typeof READERS>

/**
 * Fills in the defaults and checks the options.
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
