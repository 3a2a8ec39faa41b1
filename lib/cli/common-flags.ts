import { INSTALLATION } from '../delivery/loop-options.ts'
import { eventTypes } from '../resources/own-events.ts'
import { OVERLAP_MAX_MS } from '../settings/overlap.ts'
import { parseRange } from '../webhooks/address-ranges.ts'
import { CHOICES, type EndpointChoices } from '../webhooks/endpoint-choices.ts'
import { parseDuration } from './durations.ts'
import { UsageError } from './failure.ts'
import { choice, type Flag, orVariable, parsed, parseWhole, required, text, toggle } from './flags.ts'
import { parseNumber } from './rate.ts'

// Shared flags

/** The organization that the record belongs to. */
export const organization: Flag<string> = required(
  orVariable('BUSINESS_API_ORGANIZATION', { ...text('O', "the organization's id"), short: 'o' }),
)

/** Who makes the change, a person or a program. */
export const actor: Flag<string> = {
  ...text('NAME', "who makes the change, for the audit log; default: 'cli'"),
  read: ([given = 'cli']) => given,
}

/** An event type. */
export function eventTypeFlag(help: string): Flag<string | undefined> {
  return choice('TYPE', help, eventTypes)
}

/** Flags for commands that page through a list. */
export const PAGE_FLAGS = {
  limit: parsed('N', 'how many rows, 1 to 200; default: 50', parseWhole),
  before: text('ID', 'the next page: the id at the end of the previous page'),
}

/** Flags for commands that print a table. */
export const TABLE_FLAGS = {
  wide: toggle('one line for each row, even if the terminal is narrower'),
}

/** Flags for commands that check webhook destinations. */
export const DESTINATION_FLAGS = {
  allowPrivateNetworks: toggle('allow webhooks to this machine and its network: for development'),
  allowHttp: toggle('allow webhooks over http: for development'),
  localDevelopment: toggle('--allow-private-networks and --allow-http together'),
  refuseAddresses: orVariable(
    'BUSINESS_API_REFUSE_ADDRESSES',
    parsed('RANGE,…', 'more addresses to reject: 198.51.100.0/24,fd12::/16', parseRanges),
  ),
}

/** @throws `UsageError` */
function parseRanges(given: string, source: string): readonly string[] {
  const ranges = given.split(',').map((range) => range.trim())
  if (ranges.every((range) => parseRange(range, ''))) return ranges
  throw new UsageError(
    `${source} must be addresses or ranges like 198.51.100.0/24 or fd12::/16, separated by commas`,
  )
}

/** The name of the loop's installation. */
export const installation: Flag<string | undefined> = orVariable(
  'BUSINESS_API_INSTALLATION',
  parsed(
    'NAME',
    "the installation's name, for example production: a loop waits on another one's database",
    (given, source) => {
      if (INSTALLATION.test(given)) return given
      throw new UsageError(`${source} must be 1 to 64 visible ASCII characters`)
    },
  ),
)

/** A per-organization limit. If your own code raises the limit, pass the same value here. */
export function maxFlag(variable: string, help: string): Flag<number | undefined> {
  return orVariable(variable, parsed('N', help, parseWhole))
}

/**
 * How long a replaced key or secret stays active.
 *
 * @param both describes the overlap period, for example "both keys are in force"
 */
export function overlapFlag(both: string): Flag<number | undefined> {
  return parsed('DURATION', `how long ${both}, at most 30d; default: 24h`, parseOverlap)
}

/** @throws `UsageError` */
function parseOverlap(given: string, source: string): number {
  const ms = parseDuration(given, source)
  if (ms <= OVERLAP_MAX_MS) return ms
  throw new UsageError(`${source} must be at most 30d`)
}

/** The ULID used in example ids. */
export const EXAMPLE_ULID = '01K0A7XG5T8YH0ZQK3V9E4R2BN'

/** Flags for the endpoint choices, used by `endpoints add` and `endpoints update`. */
export const CHOICE_FLAGS = {
  description: text('TEXT', 'a descriptive name'),
  maxPerSecond: parsed(
    'N|off',
    'maximum number of deliveries per second to the endpoint: 10, or 0.5',
    (given, source) => (given === 'off' ? null : parseNumber(given, source)),
  ),
}

type Others<Given> = Omit<Given, keyof EndpointChoices>

/** Separates the endpoint choices from all other flags. */
export function splitChoices<Given extends object>(
  given: Given,
): {
  readonly choices: Pick<Given, keyof Given & keyof EndpointChoices>
  readonly others: Others<Given>
} {
  const isChoice = ([name]: [string, unknown]): boolean => Object.hasOwn(CHOICES, name)
  const entries = Object.entries(given)
  return {
    choices: Object.fromEntries(entries.filter(isChoice)) as Pick<Given, keyof Given & keyof EndpointChoices>,
    others: Object.fromEntries(entries.filter((entry) => !isChoice(entry))) as Others<Given>,
  }
}
