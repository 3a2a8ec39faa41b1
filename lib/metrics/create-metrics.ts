import * as v from 'valibot'
import { IdSchema, OrganizationIdSchema, read } from '../base/host-input.ts'
import { readHaving } from '../base/options.ts'
import { type AnswerTrace, channels, type LoopStep } from '../base/tracing.ts'
import type { Notice } from '../webhooks/notices.ts'
import type { QueueCounts, QueueTarget } from '../webhooks/queue-counts.ts'
import { createDeliveryMetrics } from './delivery-metrics.ts'
import { type Health, judgeHealth, readLoop } from './health.ts'
import type { Numbers } from './instruments.ts'
import type { Meter, ObserveCallback } from './meter.ts'
import { type MetricsOptions, type MetricsStore, resolveMetricsOptions } from './metrics-options.ts'
import { PROMETHEUS_CONTENT_TYPE, writePrometheusText } from './prometheus-text.ts'
import { createQueueWatch } from './queue-watch.ts'
import { createRequestMetrics } from './request-metrics.ts'
import { numbersOf, STATE_METRICS, type State, valuesOf } from './state-metrics.ts'

/** A process's metrics. */
export interface Metrics {
  /** The content type of {@link Metrics.text}. */
  readonly contentType: string
  /**
   * Returns all metrics in the Prometheus exposition format, version 0.0.4. If the store doesn't respond, you only get
   * this process's own metrics, and `business_api_queue_up` is 0.
   */
  text(): Promise<string>
  /** Checks whether this process can do its work. Useful for readiness checks. Never rejects. */
  health(): Promise<Health>
  /**
   * Returns queue counts for an organization or endpoint. Not part of the metrics because that would require a label
   * per organization.
   *
   * @throws `BusinessApiError` with code `invalid_input` if the target has no organization. Also throws any
   * store errors
   */
  queueOf(target: QueueTarget): Promise<QueueCounts>
  /** Stops counting. You can still read the current values. */
  close(): void
}

const TargetSchema = v.object({ organizationId: OrganizationIdSchema, endpointId: v.optional(IdSchema) })

/**
 * Creates this process's metrics. From then on, counts requests to all APIs and deliveries by all loops. Only
 * subscribes to `node:diagnostics_channel`, and doesn't open any connections or set any timers.
 *
 * @param store the store used by the API and the loop
 * @throws `TypeError` or `RangeError` for invalid options
 * @example
 * ```ts
 * const metrics = createMetrics(store)
 * const text = await metrics.text()   // GET /metrics
 * ```
 */
export function createMetrics(store: MetricsStore, options: MetricsOptions = {}): Metrics {
  readHaving('The store', store, 'deliveries.countQueue', 'createPostgresStore() and createMemoryStore()')
  const resolved = resolveMetricsOptions(options)
  const { loop: loops, meter, countQueue } = resolved
  const requests = createRequestMetrics(meter)
  const delivering = createDeliveryMetrics(meter)
  const shards = (store.shards ?? [{ name: undefined, store }]).map(({ name, store: own }, index) => ({
    labels: name === undefined ? {} : { shard: name },
    store: own,
    loop: loops[index],
    readQueue: createQueueWatch(own, resolved),
  }))
  const counted = [...requests.metrics, ...delivering.metrics]

  function readStates(): Promise<readonly State[]> {
    return Promise.all(
      shards.map(async ({ labels, store: own, loop, readQueue }) => ({
        labels,
        queue: countQueue ? await readQueue() : { counts: null, failure: null },
        isCounting: countQueue,
        connections: own.connectionUse?.(),
        loop: loop && readLoop(loop),
        now: Date.now(),
      })),
    )
  }

  const ends = [
    subscribe<AnswerTrace>(channels.answer, requests.note),
    subscribe<LoopStep>(channels.loop, delivering.note),
    subscribe<Notice>(channels.notice, delivering.noteNotice),
  ]
  if (meter) {
    const numbers = counted.filter((metric): metric is Numbers => metric.kind !== 'histogram')
    ends.push(observeNumbers(meter, numbers), observeState(meter, readStates))
  }

  return {
    contentType: PROMETHEUS_CONTENT_TYPE,
    async text() {
      const states = await readStates()
      return writePrometheusText([...counted, ...numbersOf(states)])
    },
    health: async () => judgeHealth(await Promise.all(shards.map((shard) => shard.readQueue())), resolved),
    queueOf: async (target) =>
      store.deliveries.countQueue(read(TargetSchema, target, 'Cannot count the queue')),
    close() {
      for (const end of ends) end()
    },
  }
}

/** @returns a function that unsubscribes */
function subscribe<Message>(
  channel: (typeof channels)['answer'],
  note: (message: Message) => void,
): () => void {
  // If a subscriber throws, the process crashes. A bug in the host's meter shouldn't be able to do that.
  const listen = (message: unknown): void => {
    try {
      note(message as Message)
    } catch {}
  }
  channel.subscribe(listen)
  return () => void channel.unsubscribe(listen)
}

/** @returns a function that stops observing */
function observeNumbers(meter: Meter, metrics: readonly Numbers[]): () => void {
  return observeEach(
    meter,
    metrics.map((metric) => ({
      ...metric,
      callback: (result) => {
        for (const { labels, value } of metric.all) result.observe(value, labels)
      },
    })),
  )
}

/** @returns a function that stops observing */
function observeState(meter: Meter, readStates: () => Promise<readonly State[]>): () => void {
  return observeEach(
    meter,
    STATE_METRICS.map((metric) => ({
      ...metric,
      callback: async (result) => {
        for (const { labels, value } of valuesOf(metric, await readStates())) result.observe(value, labels)
      },
    })),
  )
}

type Observed = Pick<Numbers, 'kind' | 'name' | 'help' | 'unit'> & { readonly callback: ObserveCallback }

function observeEach(meter: Meter, observed: readonly Observed[]): () => void {
  const ends = observed.map(({ kind, name, help, unit, callback }) => {
    const about = { description: help, unit }
    const instrument =
      kind === 'counter'
        ? meter.createObservableCounter(name, about)
        : meter.createObservableGauge(name, about)
    instrument.addCallback(callback)
    return () => instrument.removeCallback(callback)
  })
  return () => {
    for (const end of ends) end()
  }
}
