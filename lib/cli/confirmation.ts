import { visible } from '../base/visible-text.ts'
import { DELIVERY_COUNT_MAX } from '../webhooks/outlook.ts'
import { Failure, UsageError } from './failure.ts'
import { type Flag, toggle } from './flags.ts'
import { formatCount } from './progress.ts'
import type { Session } from './session.ts'
import { wrap } from './text.ts'

// A command that ends something first shows the consequence in numbers, and asks. A slip of the hand then costs a keystroke
// and not an organization's events.

/** Flags of commands that end something. */
export const CONFIRMATION_FLAGS: { readonly yes: Flag<boolean>; readonly dryRun: Flag<boolean> } = {
  yes: toggle("don't ask for confirmation; required without a terminal"),
  dryRun: toggle('only show what would happen'),
}

/** The consequences of a command that has not been run yet. */
export interface Consequence {
  /** Whole sentences: `Erases 808 events of 12 organizations, 31 failed deliveries among them.` */
  readonly text: string
  /** The same for programs: `{ events: 808, organizations: 12, failed: 31 }`. */
  readonly facts: object
}

/**
 * `1 event`, `808 events`, `10,000 and more events`.
 *
 * @param isPartial whether the counting ended before everything was counted
 */
export function countOf(
  count: number,
  one: string,
  several: string = `${one}s`,
  isPartial: boolean = count >= DELIVERY_COUNT_MAX,
): string {
  return `${formatCount(count)}${isPartial ? ' and more' : ''} ${count === 1 && !isPartial ? one : several}`
}

/**
 * Asks whether to go on, unless `--yes` is given. A dry run prints the consequence as the command's result.
 *
 * @param find determines the consequence; not called with `--yes`
 * @returns false for a dry run, which ends here
 * @throws {@link Failure} for any input but yes, `UsageError` without a terminal to ask on
 */
export async function confirm(
  session: Session,
  { yes, dryRun }: { readonly yes: boolean; readonly dryRun: boolean },
  find: () => Promise<Consequence>,
): Promise<boolean> {
  if (yes && !dryRun) return true
  const { text, facts } = await session.progress('Counting').during(find())
  if (dryRun) {
    await session.print(
      { dryRun: true, ...facts },
      () => `${wrapFor(session, `${text} Nothing was changed.`)}\n`,
    )
    return false
  }
  const { stdin, stderr } = session.terminal
  if (!stdin.isTTY || !stderr.isTTY) {
    throw new UsageError(
      `Nothing was done because there is no terminal to confirm in: ${text} Pass --yes to go on, or --dry-run to change nothing`,
    )
  }
  const question = session.shard === null ? text : `Shard ${session.shard}: ${text}`
  stderr.write(`${wrapFor(session, question)}\nGo on? [y/N] `)
  const answer = await stdin.readLine()
  if (answer === null) stderr.write('\n')
  if (!/^y(es)?$/i.test(answer?.trim() ?? '')) throw new Failure('Nothing was changed: not confirmed')
  return true
}

function wrapFor(session: Session, text: string): string {
  return wrap(visible(text), session.width()).join('\n')
}
