import { OVERLAP_MAX_MS } from '../settings/overlap.ts'
import { parseDuration } from './durations.ts'
import { UsageError } from './failure.ts'
import { type Flag, parsed, parseWhole, required, text, toggle } from './flags.ts'

// Flags that several commands have, in one wording.

/** Whose record it is. */
export const organization: Flag<string> = required(text('O', "the organization's id"))

/** Who changes something. */
export const actor: Flag<string> = {
  ...text('WHO', "who does it, for the audit; default: 'cli'"),
  read: ([given = 'cli']) => given,
}

/** Of logs that are shown page by page. */
export const PAGE_FLAGS: {
  readonly limit: Flag<number | undefined>
  readonly before: Flag<string | undefined>
} = {
  limit: parsed('N', 'how many, 1 to 200; default: 50', parseWhole),
  before: text('ID', 'the page that follows: the next of the page before'),
}

/** Of commands that judge where webhooks go. */
export const DESTINATION_FLAGS: {
  readonly allowPrivateNetworks: Flag<boolean>
  readonly allowHttp: Flag<boolean>
} = {
  allowPrivateNetworks: toggle('let webhooks go to this machine and this network: for development'),
  allowHttp: toggle('let webhooks go over http too: for development'),
}

/** What the webhook headers begin with. */
export const headerPrefix: Flag<string | undefined> = text(
  'PREFIX',
  'what the webhook headers begin with; default: X-SERVICE',
)

/** How long what is replaced stays in force. @param both what the two do together: "both keys are in force" */
export function overlapFlag(both: string): Flag<number | undefined> {
  return parsed('DURATION', `how long ${both}, at most 30d; default: 24h`, parseOverlap)
}

/** @throws `UsageError` */
function parseOverlap(given: string, flag: string): number {
  const ms = parseDuration(given, flag)
  if (ms <= OVERLAP_MAX_MS) return ms
  throw new UsageError(`Cannot use ${flag} as it must be at most 30d`)
}

/** Stands for ids in examples. */
export const EXAMPLE_ULID = '01K0A7XG5T8YH0ZQK3V9E4R2BN'
