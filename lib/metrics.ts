export type { ConnectionUse } from './business-store.ts'
export { createMetrics, type Metrics } from './metrics/create-metrics.ts'
export type { Health, HealthCheck } from './metrics/health.ts'
export type {
  InstrumentOptions,
  Meter,
  MeterHistogram,
  ObservableInstrument,
  ObservableResult,
  ObserveCallback,
} from './metrics/meter.ts'
export type { MetricsOptions, MetricsStore } from './metrics/metrics-options.ts'
export type { LoopHealth } from './webhooks/loop-health.ts'
export { QUEUE_COUNT_MAX, type QueueCounts, type QueueTarget } from './webhooks/queue-counts.ts'
