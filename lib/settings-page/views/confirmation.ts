import type { Context, ScreenPage } from '../context.ts'
import { type Content, html } from '../html.ts'
import { buttonLink } from './elements.ts'
import { form } from './form.ts'

/** A question before an action is taken. */
export interface Confirmation {
  /** The action and the subject's name. */
  readonly title: string
  /** Consequences of the action, with numbers and times. */
  readonly consequences: readonly Content[]
  /** The path to which the form is submitted. */
  readonly action: string
  /** The path of the page before. */
  readonly back: string
  /** The button's text: a verb and the subject. */
  readonly verb: string
  /** The text of the link back. Defaults to `Cancel`. */
  readonly dismiss?: string
  readonly hidden?: Readonly<Record<string, string>>
  /** If `true`, the button isn't styled as dangerous. Defaults to `false`. */
  readonly isSafe?: boolean
}

/** Renders a confirmation page. The link back comes first in the tab order, and pressing Enter does nothing by default. */
export function confirmationPage(context: Context, question: Confirmation): ScreenPage {
  const { title, consequences, action, back, verb, dismiss = context.t`Cancel`, hidden = {} } = question
  const content = html`<div class="ba-question">
${consequences.map(
  (consequence) => html`<p>${consequence}</p>
`,
)}${form(
  context,
  action,
  hidden,
  null,
  html`${buttonLink(back, dismiss)}<button class="ba-button ba-button-${question.isSafe ? 'main' : 'danger'}">${verb}</button>`,
)}</div>`
  return { title, content }
}
