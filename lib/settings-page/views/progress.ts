import type { Context } from '../context.ts'
import { attributes, type Content, type Html, html } from '../html.ts'
import { buttonLink } from './elements.ts'
import { form } from './form.ts'

/** The progress of an action that takes several requests. */
export interface Progress {
  readonly done: number
  /** The total of the whole action, as counted before it started. */
  readonly total: number
  /** `5,000 of 12,000 deliveries queued`. */
  readonly text: string
  /** The path to which the next part's form is submitted. */
  readonly action: string
  readonly hidden: Readonly<Record<string, string>>
  /** Additional hidden fields, for example several with the same name. */
  readonly fields?: Content
  /** The link of the Stop button. */
  readonly stop: string
}

/** Renders a form that continues a long action. The script submits it until the action is done or stopped. */
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
