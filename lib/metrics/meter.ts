// The part of the OpenTelemetry metrics API that the library uses, as a structural type: a meter of `@opentelemetry/api` fits, without
// an import.

/** Creates instruments: `metrics.getMeter('business-api-kit')` of `@opentelemetry/api`. */
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

/** Takes durations as they happen. */
export interface MeterHistogram {
  record(value: number, attributes?: Record<string, string>): void
}

/** Is asked for values when they are collected. */
export interface ObservableInstrument {
  addCallback(callback: ObserveCallback): void
  removeCallback(callback: ObserveCallback): void
}

/** Gives values to a collection. */
export type ObserveCallback = (result: ObservableResult) => void | Promise<void>

/** Takes the values of a collection. */
export interface ObservableResult {
  observe(value: number, attributes?: Record<string, string>): void
}
