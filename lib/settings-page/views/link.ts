import type { Context } from '../context.ts'
import { type Content, type Html, html } from '../html.ts'

/** A link with the look of a button. */
export function buttonLink(href: string, text: string, kind: 'main' | 'plain' | 'danger' = 'plain'): Html {
  return html`<a class="ba-button ba-button-${kind}" href="${href}">${text}</a>`
}

/** A link to a question, which is a dialog with JavaScript and a page without. */
export function questionLink(href: string, text: string, kind: 'plain' | 'danger' = 'plain'): Html {
  return html`<a class="ba-button ba-button-${kind}" href="${href}" data-dialog>${text}</a>`
}

/** A link to the same page in another view. */
export function quietLink(href: string, text: Content): Html {
  return html`<a class="ba-quiet-link" href="${href}">${text}</a>`
}

/**
 * The links between the pages of a log, which keep its filter.
 *
 * @param before the cursor of this page; null on the first page
 * @param next the cursor of the next page; null on the last page
 */
export function pageLinks(
  { t, link }: Context,
  path: string,
  filter: Readonly<Record<string, string>>,
  before: string | null,
  next: string | null,
): Content {
  if (before === null && next === null) return null
  return html`<p class="ba-pages">${before !== null && html`<a href="${link(path, filter)}">${t`Newest`}</a>`}${
    next !== null && html`<a href="${link(path, { ...filter, before: next })}">${t`Older`}</a>`
  }</p>`
}
