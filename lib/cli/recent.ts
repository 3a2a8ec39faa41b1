import { UsageError } from './failure.ts'
import { type Flag, toggle } from './flags.ts'

// A minimum age for erasing events. Without this, typing `1s` instead of `1d` would erase the entire log, including
// failed deliveries that no subscriber has received and no operator has seen.

/** Flags for commands that erase old events. */
export const RECENT_FLAGS: { readonly allowRecent: Flag<boolean> } = {
  allowRecent: toggle('erase also events that are younger than 1d'),
}

/** Gives people enough time to notice a failed delivery and recover it. */
const AGE_MIN_MS = 86_400_000

/**
 * Rejects ages below one day unless they're explicitly allowed.
 *
 * @param source the flag that has the age, for the message
 * @throws `UsageError`
 */
export function refuseRecent(ageMs: number, isAllowed: boolean, source: string): void {
  if (ageMs >= AGE_MIN_MS || isAllowed) return
  throw new UsageError(
    `Cannot use ${source} because an age below 1d would erase events before their failed deliveries are seen; pass --allow-recent to erase them nevertheless`,
  )
}
