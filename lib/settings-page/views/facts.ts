import { type Content, type Html, html } from '../html.ts'

/** Renders a description list. `null` entries are skipped. */
export function facts(entries: readonly (readonly [string, Content] | null)[]): Html {
  return html`<dl class="ba-facts">
${entries.map(
  (entry) =>
    entry &&
    html`<div><dt>${entry[0]}</dt><dd>${entry[1]}</dd></div>
`,
)}</dl>`
}
