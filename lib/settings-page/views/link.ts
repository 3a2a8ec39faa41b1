import { type Html, html } from '../html.ts'

/** A link with the look of a button. */
export function buttonLink(href: string, text: string, kind: 'main' | 'plain' | 'danger' = 'plain'): Html {
  return html`<a class="ba-button ba-button-${kind}" href="${href}">${text}</a>`
}

/** A link to a question, which is a dialog with JavaScript and a page without. */
export function questionLink(href: string, text: string, kind: 'plain' | 'danger' = 'plain'): Html {
  return html`<a class="ba-button ba-button-${kind}" href="${href}" data-dialog>${text}</a>`
}
