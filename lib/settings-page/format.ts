import { type Html, html } from './html.ts'

/** Dates and numbers in the language and time zone of the person. */
export interface Format {
  /** Shows a moment. The browser's script adds the time that has passed since. */
  time(iso: string): Html
  /** Shows a moment as text. */
  date(iso: string): string
  /** Shows a duration in milliseconds: `12 ms`, `1.2 s`. */
  duration(ms: number): string
  number(value: number): string
}

/** @param timeZone an IANA name, shown with every time */
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
  const numbers = new Intl.NumberFormat(locale)
  const unit = (value: number, unit: string, digits: number): string =>
    new Intl.NumberFormat(locale, { style: 'unit', unit, maximumFractionDigits: digits }).format(value)
  const date = (iso: string): string => dates.format(new Date(iso))
  return {
    time: (iso) => html`<time datetime="${iso}">${date(iso)}</time>`,
    date,
    duration: (ms) => (ms < 1000 ? unit(ms, 'millisecond', 0) : unit(ms / 1000, 'second', 1)),
    number: (value) => numbers.format(value),
  }
}
