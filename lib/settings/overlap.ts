import * as v from 'valibot'

/** How long what is replaced stays in force, unless it is said otherwise. */
export const OVERLAP_MS: number = 24 * 60 * 60 * 1000
/** How long it may: 30 days. */
export const OVERLAP_MAX_MS: number = 30 * OVERLAP_MS

const requirement = `must be a whole number of milliseconds from 0 to ${OVERLAP_MAX_MS}`

/** How long what is replaced may stay in force: 0 to 30 days. */
export const OverlapSchema: v.GenericSchema<number> = v.pipe(
  v.number(requirement),
  v.check((ms) => Number.isInteger(ms) && ms >= 0 && ms <= OVERLAP_MAX_MS, requirement),
)
