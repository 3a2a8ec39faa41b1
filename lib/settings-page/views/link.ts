import type { Context } from '../context.ts'
import { type Content, type Html, html } from '../html.ts'

/** Renders a link styled as a button. */
export function buttonLink(href: string, text: string, kind: 'main' | 'plain' | 'danger' = 'plain'): Html {
  return html`<a class="ba-button ba-button-${kind}" href="${href}">${text}</a>`
}

/** Renders a link to a confirmation, which opens as a dialog if JavaScript is available. */
export function questionLink(href: string, text: string, kind: 'plain' | 'danger' = 'plain'): Html {
  return html`<a class="ba-button ba-button-${kind}" href="${href}" data-dialog>${text}</a>`
}

/** Renders a secondary link, for example to another view of the same page. */
export function quietLink(href: string, text: Content): Html {
  return html`<a class="ba-quiet-link" href="${href}">${text}</a>`
}

/**
 * Renders a log's pagination links, which keep the filter.
 *
 * @param before this page's cursor; `null` on the first page
 * @param next the next page's cursor; `null` on the last page
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
