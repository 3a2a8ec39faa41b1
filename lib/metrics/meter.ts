// The parts of the OpenTelemetry metrics API used by this library. They are defined as structural types so that we
// don't need to import `@opentelemetry/api`.

/** Creates instruments. You can pass `metrics.getMeter('business-api-kit')` of `@opentelemetry/api`. */
export interface Meter {
  createHistogram(name: string, options?: InstrumentOptions): MeterHistogram
  createObservableCounter(name: string, options?: InstrumentOptions): ObservableInstrument
  createObservableGauge(name: string, options?: InstrumentOptions): ObservableInstrument
}

/** Options of an instrument. */
export interface InstrumentOptions {
  description?: string
  unit?: string
  advice?: { explicitBucketBoundaries?: number[] }
}

/** Records durations as they happen. */
export interface MeterHistogram {
  record(value: number, attributes?: Record<string, string>): void
}

/** An instrument that calls back when its values are collected. */
export interface ObservableInstrument {
  addCallback(callback: ObserveCallback): void
  removeCallback(callback: ObserveCallback): void
}

/** Reports the current values during a collection. */
export type ObserveCallback = (result: ObservableResult) => void | Promise<void>

/** Receives the values of a collection. */
export interface ObservableResult {
  observe(value: number, attributes?: Record<string, string>): void
}
