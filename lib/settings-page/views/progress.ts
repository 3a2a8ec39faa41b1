import type { Context } from '../context.ts'
import { attributes, type Content, type Html, html } from '../html.ts'
import { form } from './form.ts'
import { buttonLink } from './link.ts'

/** An act that is too long for one request, between two of its parts. */
export interface Progress {
  readonly done: number
  /** Of the whole act, as counted before it began. */
  readonly total: number
  /** `5,000 of 12,000 deliveries queued`. */
  readonly text: string
  /** The path that receives the form of the next part. */
  readonly action: string
  readonly hidden: Readonly<Record<string, string>>
  /** Further hidden fields, such as several of one name. */
  readonly fields?: Content
  /** The page that Stop leads to. */
  readonly stop: string
}

/** A form that goes on with a long act. The script sends it by itself until the act is done or the person stops it. */
export function continuation(
  context: Context,
  { done, total, text, action, hidden, fields = null, stop }: Progress,
): Html {
  const { t } = context
  const counts = { done: String(done), total: String(total) }
  const bar = attributes({ value: done, max: Math.max(done, total), 'aria-label': text })
  return html`<div data-continue><p role="status">${text}</p>
<p><progress class="ba-progress"${bar}></progress></p>
${form(
  context,
  action,
  { ...hidden, ...counts },
  fields,
  html`<button class="ba-button ba-button-main">${t`Continue`}</button>${buttonLink(stop, t`Stop`)}`,
)}</div>`
}
