import { UsageError } from './failure.ts'
import { type Flag, toggle } from './flags.ts'

// A floor for the age of erased events. Without a floor, `1s` typed for `1d` erases the whole log, with failed deliveries that no
// subscriber has received and no operator has seen.

/** Flags of commands that erase old events. */
export const RECENT_FLAGS: { readonly allowRecent: Flag<boolean> } = {
  allowRecent: toggle('erase also events that are younger than 1d'),
}

/** Long enough for a person to see a failed delivery and recover it. */
const AGE_MIN_MS = 86_400_000

/**
 * Rejects an age below a day without explicit permission.
 *
 * @param source the flag with the age, for the message
 * @throws `UsageError`
 */
export function refuseRecent(ageMs: number, isAllowed: boolean, source: string): void {
  if (ageMs >= AGE_MIN_MS || isAllowed) return
  throw new UsageError(
    `Cannot use ${source} because an age below 1d would erase events before their failed deliveries are seen; pass --allow-recent to erase them nevertheless`,
  )
}
