import * as v from 'valibot'

/** How long replaced keys and secrets stay active by default, in milliseconds (24 hours). */
export const OVERLAP_MS: number = 24 * 60 * 60 * 1000
/** Maximum time that replaced keys and secrets can stay active, in milliseconds (30 days). */
export const OVERLAP_MAX_MS: number = 30 * OVERLAP_MS

const requirement = `must be a whole number of milliseconds from 0 to ${OVERLAP_MAX_MS}`

/** Schema for an overlap period of 0 to 30 days, in milliseconds. */
export const OverlapSchema: v.GenericSchema<number> = v.pipe(
  v.number(requirement),
  v.check((ms) => Number.isInteger(ms) && ms >= 0 && ms <= OVERLAP_MAX_MS, requirement),
)
