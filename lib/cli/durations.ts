import { isIsoMoment } from '../base/fields.ts'
import { UsageError } from './failure.ts'

// Parses and formats durations and times for humans.

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

const DURATION = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d|w)$/

/** A century. Databases can't handle intervals much longer than this. */
const DURATION_MAX_MS = 36_500 * 86_400_000

/** Parses a duration such as `90s`, `30m`, `24h`, `7d` or `0` to milliseconds. @throws `UsageError` */
export function parseDuration(text: string, source: string): number {
  const ms = readDuration(text)
  if (ms !== null) return ms
  throw new UsageError(`${source} must be a duration like 90s, 30m, 24h or 7d, at most 36500d`)
}

/**
 * Returns `false` for `never`. Otherwise like {@link parseDuration}, except that `0` is invalid.
 *
 * @throws `UsageError`
 */
export function parseRetention(text: string, source: string): number | false {
  if (text === 'never') return false
  const ms = readDuration(text)
  if (ms) return ms
  throw new UsageError(`${source} must be 'never' or a duration like 30d, at most 36500d`)
}

/**
 * Parses a past time, which can be `24h` (24 hours ago), a UTC date such as `2026-01-31`, or ISO 8601 with a time zone.
 *
 * @throws `UsageError`
 */
export function parsePast(text: string, source: string): Date {
  return parseMoment(text, source, -1)
}

/**
 * Parses a future time, which can be `90d` (90 days from now), a UTC date, or ISO 8601 with a time zone.
 *
 * @throws `UsageError`
 */
export function parseFuture(text: string, source: string): Date {
  const moment = parseMoment(text, source, 1)
  if (moment.getTime() > Date.now()) return moment
  throw new UsageError(`${source} must be in the future`)
}

const DAY = /^\d{4}-\d\d-\d\d$/

function parseMoment(text: string, source: string, direction: 1 | -1): Date {
  const ms = readDuration(text)
  const moment = ms === null ? new Date(text.toUpperCase()) : new Date(Date.now() + direction * ms)
  const isReadable = ms !== null || (DAY.test(text) ? isIsoMoment(`${text}T00:00Z`) : isIsoMoment(text))
  // `false` for an invalid time as well.
  const isInRange = moment.getTime() >= 0 && moment.getTime() < Date.UTC(10_000)
  if (isReadable && isInRange) return moment
  throw new UsageError(
    `${source} must be a duration like 24h, a day like 2026-01-31, or a moment like 2026-01-31T09:00:00Z, from 1970 to 9999`,
  )
}

function readDuration(text: string): number | null {
  if (text === '0') return 0
  const [, number, unit = ''] = DURATION.exec(text) ?? []
  const ms = Math.round(Number(number) * (UNITS_MS[unit] ?? 0))
  return ms <= DURATION_MAX_MS ? ms : null
}

/** Formats a duration, for example `12 ms`, `1.5 s`, `4 min`, `2 h 5 min` or `3 d 4 h`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  const minutes = Math.round(ms / 60_000)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return join(hours, 'h', minutes % 60, 'min')
  return join(Math.floor(hours / 24), 'd', hours % 24, 'h')
}

function join(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`
}

/** Formats one of our timestamps without milliseconds, for example `2026-01-31 09:00:00Z`. */
export function formatMoment(timestamp: string): string {
  return timestamp.replace('T', ' ').replace(/\.\d+Z$/, 'Z')
}

/** Returns the current time for use in a line of output, for example `09:00:01Z`. */
export function formatNow(): string {
  return `${new Date().toISOString().slice(11, 19)}Z`
}
