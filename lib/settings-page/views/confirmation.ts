import type { Context, ScreenPage } from '../context.ts'
import { type Content, html } from '../html.ts'
import { form } from './form.ts'
import { buttonLink } from './link.ts'

/** A question before an act that cannot be undone. */
export interface Confirmation {
  /** The act with the name of the subject. */
  readonly title: string
  /** The consequences, with facts. */
  readonly consequences: readonly Content[]
  /** The path that receives the form. */
  readonly action: string
  /** The page that Cancel leads to. */
  readonly back: string
  /** The text of the button: the verb and the subject. */
  readonly verb: string
  readonly hidden?: Readonly<Record<string, string>>
  /** True for an act that takes nothing away: its button has the colour of every other act. Default false. */
  readonly isSafe?: boolean
}

/** A page that asks before a dangerous act: Cancel comes first in the order of tabs, and Enter does nothing by default. */
export function confirmationPage(
  context: Context,
  { title, consequences, action, back, verb, hidden = {}, isSafe = false }: Confirmation,
): ScreenPage {
  const content = html`<div class="ba-question">
${consequences.map(
  (consequence) => html`<p>${consequence}</p>
`,
)}${form(
  context,
  action,
  hidden,
  null,
  html`${buttonLink(back, context.t`Cancel`)}<button class="ba-button ba-button-${isSafe ? 'main' : 'danger'}">${verb}</button>`,
)}</div>`
  return { title, content }
}
