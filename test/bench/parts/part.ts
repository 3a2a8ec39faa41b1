import type { BenchDatabase, Keys } from '../database.ts'
import type { Collector } from '../figures.ts'
import type { BenchOptions } from '../options.ts'

/** A part of the benchmark: measures in rounds, and adds a sample to each series in each round. */
export type Part = (context: PartContext) => Promise<void>

/** The surroundings of a part: options, database, keys, and the place for its samples. */
export interface PartContext {
  readonly options: BenchOptions
  readonly database: BenchDatabase
  readonly keys: Keys
  readonly collector: Collector
  /** Tells the terminal about the progress. */
  say(text: string): void
}
