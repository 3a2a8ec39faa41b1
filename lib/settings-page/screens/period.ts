import type { Context } from '../context.ts'
import { attributes, type Html, html } from '../html.ts'
import { input, select } from '../views/form.ts'

/** The period of a filter as the URL has it; empty texts select all. */
export interface Period {
  /** `1h`, `24h`, `7d`, or `custom` for `from` and `to`. */
  readonly period: string
  readonly from: string
  readonly to: string
}

const HOUR_MS = 60 * 60 * 1000
const PERIODS: Readonly<Record<string, number>> = {
  '1h': HOUR_MS,
  '24h': 24 * HOUR_MS,
  '7d': 7 * 24 * HOUR_MS,
}
const CUSTOM = 'custom'

/** Reads the period of a URL or of a form; values that cannot be used count as absent. */
export function readPeriod(text: (name: keyof Period) => string): Period {
  const [period, from, to] = [text('period'), text('from'), text('to')]
  return {
    period: period === CUSTOM || Object.hasOwn(PERIODS, period) ? period : '',
    from: momentOf(from) === null ? '' : from,
    to: momentOf(to) === null ? '' : to,
  }
}

/** Gives the period as the settings take it. */
export function momentsOf(
  { period, from, to }: Period,
  now: number,
): { readonly since?: Date; readonly until?: Date } {
  const ms = PERIODS[period]
  if (ms !== undefined) return { since: new Date(now - ms) }
  const [since, until] = period === CUSTOM ? [momentOf(from), momentOf(to)] : [null, null]
  return { ...(since !== null && { since }), ...(until !== null && { until }) }
}

/** The fields of the period. The script shows the two moments as soon as they are chosen; without it, the next answer does. */
export function periodFields({ t }: Context, { period, from, to }: Period): Html {
  return html`${select(
    { name: 'period', label: t`Time` },
    [
      { value: '', text: t`All` },
      { value: '1h', text: t`Last hour` },
      { value: '24h', text: t`Last 24 hours` },
      { value: '7d', text: t`Last 7 days` },
      { value: CUSTOM, text: t`From and to (UTC)` },
    ],
    period,
  )}
<div class="ba-filters" data-custom${attributes({ hidden: period !== CUSTOM })}>${input({ name: 'from', label: t`From` }, { type: 'datetime-local', value: from })}
${input({ name: 'to', label: t`To` }, { type: 'datetime-local', value: to })}</div>`
}

/** The value of an input of type datetime-local, read as UTC. */
function momentOf(text: string): Date | null {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text)) return null
  const time = Date.parse(`${text}Z`)
  return Number.isNaN(time) || time < 0 ? null : new Date(time)
}
