// The parts of the OpenTelemetry metrics API we use. These are structural types so that we don't have to depend
// on `@opentelemetry/api`.

/** Creates instruments. You can use `metrics.getMeter('business-api-kit')` from `@opentelemetry/api`. */
export interface Meter {
  createHistogram(name: string, options?: InstrumentOptions): MeterHistogram
  createObservableCounter(name: string, options?: InstrumentOptions): ObservableInstrument
  createObservableGauge(name: string, options?: InstrumentOptions): ObservableInstrument
}

/** Options for an instrument. */
export interface InstrumentOptions {
  description?: string
  unit?: string
  advice?: { explicitBucketBoundaries?: number[] }
}

/** Records durations as they happen. */
export interface MeterHistogram {
  record(value: number, attributes?: Record<string, string>): void
}

/** An instrument with a callback that runs when values are collected. */
export interface ObservableInstrument {
  addCallback(callback: ObserveCallback): void
  removeCallback(callback: ObserveCallback): void
}

/** Reports the current values when they are collected. */
export type ObserveCallback = (result: ObservableResult) => void | Promise<void>

/** Receives the values reported by a callback. */
export interface ObservableResult {
  observe(value: number, attributes?: Record<string, string>): void
}
