import type { Meter } from './meter.ts'

// Keeps this process's metrics in memory, for both the Prometheus text and OpenTelemetry. Each series is created once
// per label combination, so counting is just an increment.

/** A series' labels. Values must come from a fixed set. Never use an organization, key, endpoint or raw path. */
export type Labels = Readonly<Record<string, string>>

/** A metric's name and description. */
export interface Description {
  /** The OpenTelemetry name. In Prometheus, `business_api.requests` becomes `business_api_requests_total`. */
  readonly name: string
  readonly help: string
  /** The OpenTelemetry unit, for example `s` or `{request}`. */
  readonly unit: string
}

/** A counter's or gauge's value for one set of labels. */
export interface Series {
  readonly labels: Labels
  value: number
}

/** A histogram's counts for one set of labels. */
export interface HistogramSeries {
  readonly labels: Labels
  /** Per-bucket (non-cumulative) counts. The last entry is for durations above the highest bound. */
  readonly counts: number[]
  /** The sum of all durations in seconds. */
  sum: number
  /** @param ms duration in milliseconds */
  observe(ms: number): void
}

/** A counter or gauge. */
export interface Numbers extends Description {
  readonly kind: 'counter' | 'gauge'
  /** Returns the series for these labels, creating it if needed. Does a lookup, so avoid this on the hot path. */
  series(labels?: Labels): Series
  readonly all: readonly Series[]
}

/** A histogram of durations in seconds. */
export interface Histogram extends Description {
  readonly kind: 'histogram'
  /** Bucket upper bounds in seconds, in ascending order. */
  readonly bounds: readonly number[]
  /** Returns the series for these labels, creating it if needed. Does a lookup, so avoid this on the hot path. */
  series(labels?: Labels): HistogramSeries
  readonly all: readonly HistogramSeries[]
}

/** Creates a counter or gauge. */
export function createNumbers(kind: Numbers['kind'], description: Description): Numbers {
  return { ...description, kind, ...createSeries((labels): Series => ({ labels, value: 0 })) }
}

/**
 * Creates a histogram.
 *
 * @param meter if set, every duration is recorded here as well
 */
export function createHistogram(
  description: Description,
  bounds: readonly number[],
  meter: Meter | undefined,
): Histogram {
  const { name, help, unit } = description
  const recorder = meter?.createHistogram(name, {
    description: help,
    unit,
    advice: { explicitBucketBoundaries: [...bounds] },
  })

  function make(labels: Labels): HistogramSeries {
    const counts = Array.from({ length: bounds.length + 1 }, () => 0)
    return {
      labels,
      counts,
      sum: 0,
      observe(ms) {
        const seconds = ms / 1000
        let bucket = 0
        while (bucket < bounds.length && seconds > (bounds[bucket] as number)) bucket++
        counts[bucket] = (counts[bucket] as number) + 1
        this.sum += seconds
        recorder?.record(seconds, labels)
      },
    }
  }

  return { ...description, kind: 'histogram', bounds, ...createSeries(make) }
}

/** Creates a list of series, and a function that finds the series for labels or adds it. */
function createSeries<Made extends { readonly labels: Labels }>(make: (labels: Labels) => Made) {
  const all: Made[] = []
  const series = (labels: Labels = {}): Made => {
    const known = all.find((each) => hasLabels(each, labels))
    if (known) return known
    const made = make(Object.freeze({ ...labels }))
    all.push(made)
    return made
  }
  return { all, series }
}

function hasLabels(series: { readonly labels: Labels }, labels: Labels): boolean {
  const names = Object.keys(labels)
  return (
    names.length === Object.keys(series.labels).length &&
    names.every((name) => series.labels[name] === labels[name])
  )
}
