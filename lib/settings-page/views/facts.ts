import { type Content, type Html, html } from '../html.ts'

/** Shows the facts about a subject as names and values. A null entry is left out. */
export function facts(entries: readonly (readonly [string, Content] | null)[]): Html {
  return html`<dl class="ba-facts">
${entries.map(
  (entry) =>
    entry &&
    html`<div><dt>${entry[0]}</dt><dd>${entry[1]}</dd></div>
`,
)}</dl>`
}
