import { isRateLimit, RATE_LIMIT_BOUNDS, type RateLimit } from '../access/rate-limit.ts'
import { withoutUndefined } from '../base/host-input.ts'
import { INSTALLATION } from '../delivery/loop-options.ts'
import { eventTypes } from '../resources/own-events.ts'
import type { RecoveryFilter } from '../settings/deliveries.ts'
import { OVERLAP_MAX_MS } from '../settings/overlap.ts'
import { parseRange } from '../webhooks/address-ranges.ts'
import { CHOICES, type EndpointChoices } from '../webhooks/endpoint-choices.ts'
import { parseDuration, parsePast } from './durations.ts'
import { UsageError } from './failure.ts'
import {
  choice,
  type Flag,
  orVariable,
  parsed,
  parseWhole,
  required,
  text,
  toggle,
  type Values,
} from './flags.ts'

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

/** Flags for commands that set a rate limit. */
export const RATE_FLAGS = {
  perSecond: parsed('N', 'average number of requests per second: 10, or 0.5', parseNumber),
  burst: parsed('N', 'requests at once', parseNumber),
}

/** Parses a number with decimals. @throws `UsageError` */
function parseNumber(given: string, source: string): number {
  if (/^\d{1,10}(\.\d{1,3})?$/.test(given)) return Number(given)
  throw new UsageError(`${source} must be a number like 10 or 0.5`)
}

/**
 * Combines the two rate limit flags.
 *
 * @returns the limit, or `undefined` if neither flag was passed
 * @throws `UsageError` if only one flag was passed, or a number is out of bounds
 */
export function readRate(perSecond: number | undefined, burst: number | undefined): RateLimit | undefined {
  if (perSecond === undefined && burst === undefined) return undefined
  if (perSecond === undefined || burst === undefined) {
    throw new UsageError('Pass both --per-second and --burst')
  }
  const rate = { perSecond, burst }
  if (isRateLimit(rate)) return rate
  const { perSecondMin, perSecondMax, burstMax } = RATE_LIMIT_BOUNDS
  throw new UsageError(
    `Cannot use this rate limit because --per-second must be from ${perSecondMin} to ${perSecondMax}, and --burst a whole number from 1 to ${burstMax}`,
  )
}

/** Formats a rate limit, for example `10/s, burst 100`. */
export function describeRate({ perSecond, burst }: RateLimit): string {
  return `${perSecond}/s, burst ${burst}`
}

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

/** Flags for filtering deliveries. */
export const FILTER_FLAGS = {
  endpoint: text('ID', 'only to this endpoint'),
  subject: text('ID', "only about this record: its ID, or an invoice's or proposal's number"),
  type: eventTypeFlag('only of this event type'),
  since: parsed('WHEN', 'created since: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z', parsePast),
  until: parsed('WHEN', 'created before', parsePast),
}

/**
 * Converts the flags to a filter.
 *
 * @throws `UsageError` if the period is empty
 */
export function readDeliveryFilter(flags: Values<typeof FILTER_FLAGS>): RecoveryFilter<string> {
  const { endpoint: endpointId, subject: subjectId, ...filter } = flags
  const { since, until } = filter
  if (since && until && until <= since) throw new UsageError('Pass an --until that is later than --since')
  return withoutUndefined({ endpointId, subjectId, ...filter })
}
