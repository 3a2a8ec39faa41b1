import type { Meter } from './meter.ts'

// The numbers of this process in memory, from which the Prometheus text is written and which OpenTelemetry observes. A series is
// made once for each combination of labels; counting is then an addition to a number.

/** The labels of a series. Only values from a fixed set: never an organization, a key, an endpoint or a path as sent. */
export type Labels = Readonly<Record<string, string>>

/** The name and the meaning of a metric. */
export interface Description {
  /** The name in OpenTelemetry: `business_api.requests`, in Prometheus `business_api_requests_total`. */
  readonly name: string
  readonly help: string
  /** In OpenTelemetry: `s`, or `{request}`. */
  readonly unit: string
}

/** A counter or gauge with one set of labels. */
export interface Series {
  readonly labels: Labels
  value: number
}

/** A histogram's counts for one set of labels. */
export interface HistogramSeries {
  readonly labels: Labels
  /** By bucket, not cumulative; the last is for durations above every bound. */
  readonly counts: number[]
  /** In seconds. */
  sum: number
  /** @param ms milliseconds */
  observe(ms: number): void
}

/** A metric that only grows, or that has a value at each moment. */
export interface Numbers extends Description {
  readonly kind: 'counter' | 'gauge'
  /** Finds or makes a series: for setting up, not for each event. */
  series(labels?: Labels): Series
  readonly all: readonly Series[]
}

/** Durations in seconds. */
export interface Histogram extends Description {
  readonly kind: 'histogram'
  /** Upper bounds of the buckets in seconds, ascending. */
  readonly bounds: readonly number[]
  /** Finds or makes a series: for setting up, not for each event. */
  series(labels?: Labels): HistogramSeries
  readonly all: readonly HistogramSeries[]
}

/** Creates a counter or a gauge. */
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
 * @param meter also gets each duration, if given
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
