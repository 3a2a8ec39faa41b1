import { visible } from '../base/visible-text.ts'
import { DELIVERY_COUNT_MAX } from '../webhooks/outlook.ts'
import { Failure, UsageError } from './failure.ts'
import { type Flag, toggle } from './flags.ts'
import { formatCount } from './progress.ts'
import type { Session } from './session.ts'
import { wrap } from './text.ts'

// Commands that delete or stop something first show how much is affected and ask for confirmation. That way, a typo
// doesn't cost an organization its events.

/** Flags for commands that ask for confirmation. */
export const CONFIRMATION_FLAGS: { readonly yes: Flag<boolean>; readonly dryRun: Flag<boolean> } = {
  yes: toggle("don't ask for confirmation; required without a terminal"),
  dryRun: toggle('only show what would happen'),
}

/** What a command is about to do. */
export interface Consequence {
  /** Full sentences, for example `Erases 808 events of 12 organizations, 31 failed deliveries among them.` */
  readonly text: string
  /** The same for programs, for example `{ events: 808, organizations: 12, failed: 31 }`. */
  readonly facts: object
}

/**
 * Returns `1 event`, `808 events` or `10,000 and more events`.
 *
 * @param isPartial whether counting stopped early
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
 * Asks for confirmation unless `--yes` was passed. With `--dry-run`, prints the consequence as the command's result.
 *
 * @param find determines the consequence. Not called with `--yes`
 * @returns `false` for a dry run, which is now complete
 * @throws {@link Failure} unless the answer is yes, `UsageError` if there's no terminal to ask on
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
