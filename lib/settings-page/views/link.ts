import { type Html, html } from '../html.ts'

/** A link that looks like the button that it works like. */
export function buttonLink(href: string, text: string, kind: 'main' | 'plain' | 'danger' = 'plain'): Html {
  return html`<a class="ba-button ba-button-${kind}" href="${href}">${text}</a>`
}

/** A link to a question that a dialog can ask: without JavaScript it is a page. */
export function questionLink(href: string, text: string, kind: 'plain' | 'danger' = 'plain'): Html {
  return html`<a class="ba-button ba-button-${kind}" href="${href}" data-dialog>${text}</a>`
}
