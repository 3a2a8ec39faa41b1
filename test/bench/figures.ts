/** The figures of one measurement of one round. */
export interface Sample {
  /** Answers, events or transactions per second. */
  readonly perSecond?: number
  readonly p50Ms?: number
  readonly p99Ms?: number
  /** Write-ahead log for each create, publish or delivery. */
  readonly walBytes?: number
  /** Processor seconds per second: of the load, of the server's process, and of the whole machine with all others on it. */
  readonly loadCores?: number
  readonly serverCores?: number
  readonly allCores?: number
  /** Resident memory of the server's processes. */
  readonly rssMb?: number
}

/** The name of a figure of a sample. */
export type Column = keyof Sample

/** The samples of one piece of work by one subject, a sample for each round. */
export interface Series {
  readonly work: string
  readonly subject: string
  readonly samples: Sample[]
}

/** The figures of one part. */
export interface PartFigures {
  readonly date: string
  readonly machine: string
  readonly rounds: number
  readonly seconds: number
  readonly connections: number
  readonly series: readonly Series[]
  /** Subjects that were left out, with the reason. */
  readonly leftOut: readonly string[]
}

/** The figures of all parts, each of the latest run of that part. */
export type Figures = Readonly<Record<string, PartFigures>>

/** Collects samples in the order in which the series were first seen. */
export function createCollector(): {
  add(work: string, subject: string, sample: Sample): void
  leaveOut(reason: string): void
  readonly series: readonly Series[]
  readonly leftOut: readonly string[]
} {
  const series: Series[] = []
  const leftOut: string[] = []
  return {
    add(work, subject, sample) {
      const known = findSeries(series, work, subject)
      if (known) known.samples.push(sample)
      else series.push({ work, subject, samples: [sample] })
    },
    leaveOut: (reason) => void leftOut.push(reason),
    series,
    leftOut,
  }
}

/** Collects the samples of a part. */
export type Collector = ReturnType<typeof createCollector>

/** Finds the samples of a piece of work by a subject; undefined if the run has none. */
export function findSeries(series: readonly Series[], work: string, subject: string): Series | undefined {
  return series.find((one) => one.work === work && one.subject === subject)
}

/** The median over the rounds; NaN without a figure. */
export function medianOf({ samples }: Series, column: Column): number {
  return median(samples.map((sample) => sample[column] ?? Number.NaN).filter((value) => !Number.isNaN(value)))
}

/** The median of the ratios of the rounds: a machine's speed drifts between rounds. */
export function medianRatio(of: Series, over: Series, column: Column): number {
  return median(
    of.samples.map(
      (sample, round) => (sample[column] ?? Number.NaN) / (over.samples[round]?.[column] ?? Number.NaN),
    ),
  )
}

/** The median of values in any order; NaN without a value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2
}

/** An interval of a median, and the confidence that the median lies within. */
export interface MedianInterval {
  readonly low: number
  readonly high: number
  readonly confidence: number
}

const CONFIDENCE = 0.95

/**
 * The interval of the median by order statistics, which assumes nothing about the distribution: the narrowest with a confidence of
 * 95 %. Fewer than six values do not reach 95 %: the interval is from the least to the greatest value then.
 */
export function medianInterval(values: readonly number[]): MedianInterval {
  const sorted = [...values].sort((one, other) => one - other)
  // The probability that exactly `rank` of the values lie below the median, as in tosses of a coin.
  let exactly = 0.5 ** sorted.length
  let outside = 2 * exactly
  let rank = 0
  for (;;) {
    exactly *= (sorted.length - rank) / (rank + 1)
    if (outside + 2 * exactly > 1 - CONFIDENCE) break
    outside += 2 * exactly
    rank++
  }
  const [low = Number.NaN, high = Number.NaN] = [sorted[rank], sorted.at(-1 - rank)]
  return { low, high, confidence: 1 - outside }
}
