import { attributes, type Html, html } from './html.ts'

/** Formats dates and numbers in the person's language and time zone. */
export interface Format {
  /** Renders a time with its zone. The script adds how long ago that was. */
  time(iso: string): Html
  /** Renders a time for lists, without the zone: `Nov 26, 22:52`, `22:52` or `Nov 26, 2026`. */
  short(iso: string, unit?: 'minute' | 'hour' | 'day'): Html
  /** The IANA name of the time zone. */
  readonly timeZone: string
  /** Formats a time with its zone as plain text. */
  date(iso: string): string
  /** Formats a duration in milliseconds: `12 ms`, `1.2 s`. */
  duration(ms: number): string
  number(value: number): string
  /** Formats a ratio from 0 to 1, rounded down: `99.9%`. */
  percent(share: number): string
  /** Formats the start of an hour or day in UTC: `14:00`, `Nov 26`, `Nov 26, 14:00`. */
  interval(iso: string, unit: 'hour' | 'day' | 'dayHour'): string
}

/** Creates the functions for a language and time zone. @param timeZone an IANA name */
export function createFormat(locale: string, timeZone: string): Format {
  const dates = new Intl.DateTimeFormat(locale, {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
    timeZone,
    timeZoneName: 'short',
  })
  const shortly = {
    minute: new Intl.DateTimeFormat(locale, {
      ...{ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone },
    } as const),
    hour: new Intl.DateTimeFormat(locale, { timeStyle: 'short', hourCycle: 'h23', timeZone }),
    day: new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone }),
  }
  const numbers = new Intl.NumberFormat(locale)
  const percents = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 })
  const intervals = new Map<string, Intl.DateTimeFormat>()
  // Created on first use because most pages have no chart.
  const intervalFormat = (unit: 'hour' | 'day' | 'dayHour'): Intl.DateTimeFormat =>
    intervals.get(unit) ??
    new Intl.DateTimeFormat(locale, {
      ...(unit !== 'hour' && { month: 'short', day: 'numeric' }),
      ...(unit !== 'day' && { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
      timeZone: 'UTC',
    })
  const unit = (value: number, unit: string, digits: number): string =>
    new Intl.NumberFormat(locale, { style: 'unit', unit, maximumFractionDigits: digits }).format(value)
  const date = (iso: string): string => dates.format(new Date(iso))
  return {
    time: (iso) => html`<time datetime="${iso}">${date(iso)}</time>`,
    short: (iso, unit = 'minute') =>
      html`<time${attributes({ datetime: iso, 'data-day': unit === 'day' })}>${shortly[unit].format(new Date(iso))}</time>`,
    timeZone,
    date,
    duration: (ms) => (ms < 1000 ? unit(ms, 'millisecond', 0) : unit(ms / 1000, 'second', 1)),
    number: (value) => numbers.format(value),
    percent: (share) => percents.format(Math.floor(share * 1000 + 1e-6) / 1000),
    interval(iso, unit) {
      const format = intervalFormat(unit)
      intervals.set(unit, format)
      return format.format(new Date(iso))
    },
  }
}
