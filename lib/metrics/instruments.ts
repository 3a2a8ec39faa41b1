import type { Meter } from './meter.ts'

// Keeps the numbers of this process in memory, both for the Prometheus text and for OpenTelemetry to observe. A series
// is created once for each combination of labels, so counting only means adding to a number.

/** Labels of a series. Values must be from a fixed set and never an organization, key, endpoint or raw path. */
export type Labels = Readonly<Record<string, string>>

/** The name and description of a metric. */
export interface Description {
  /** The OpenTelemetry name. For example, `business_api.requests` is `business_api_requests_total` in Prometheus. */
  readonly name: string
  readonly help: string
  /** The OpenTelemetry unit, for example `s` or `{request}`. */
  readonly unit: string
}

/** The value of a counter or gauge for one set of labels. */
export interface Series {
  readonly labels: Labels
  value: number
}

/** The counts of a histogram for one set of labels. */
export interface HistogramSeries {
  readonly labels: Labels
  /** Counts per bucket, not cumulative. The last one is for durations above all bounds. */
  readonly counts: number[]
  /** The sum of all durations in seconds. */
  sum: number
  /** @param ms duration in milliseconds */
  observe(ms: number): void
}

/** A counter or gauge. */
export interface Numbers extends Description {
  readonly kind: 'counter' | 'gauge'
  /** Returns the series, creating it if needed. Call this during setup, not for every event. */
  series(labels?: Labels): Series
  readonly all: readonly Series[]
}

/** A histogram of durations in seconds. */
export interface Histogram extends Description {
  readonly kind: 'histogram'
  /** Upper bounds of the buckets in seconds, in ascending order. */
  readonly bounds: readonly number[]
  /** Returns the series, creating it if needed. Call this during setup, not for every event. */
  series(labels?: Labels): HistogramSeries
  readonly all: readonly HistogramSeries[]
}

/** Creates a counter or gauge. */
export function createNumbers(kind: Numbers['kind'], description: Description): Numbers {
  const all: Series[] = []
  return {
    ...description,
    kind,
    all,
    series(labels = {}) {
      const known = all.find((series) => hasLabels(series, labels))
      if (known) return known
      const made: Series = { labels: Object.freeze({ ...labels }), value: 0 }
      all.push(made)
      return made
    },
  }
}

/**
 * Creates a histogram.
 *
 * @param meter also records all durations if given
 */
export function createHistogram(
  description: Description,
  bounds: readonly number[],
  meter: Meter | undefined,
): Histogram {
  const all: HistogramSeries[] = []
  const { name, help, unit } = description
  const recorder = meter?.createHistogram(name, {
    description: help,
    unit,
    advice: { explicitBucketBoundaries: [...bounds] },
  })

  function make(given: Labels): HistogramSeries {
    const labels = Object.freeze({ ...given })
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

  return {
    ...description,
    kind: 'histogram',
    bounds,
    all,
    series(labels = {}) {
      const known = all.find((series) => hasLabels(series, labels))
      if (known) return known
      const made = make(labels)
      all.push(made)
      return made
    },
  }
}

function hasLabels(series: { readonly labels: Labels }, labels: Labels): boolean {
  const names = Object.keys(labels)
  return (
    names.length === Object.keys(series.labels).length &&
    names.every((name) => series.labels[name] === labels[name])
  )
}
