import { ALREADY_EXISTS, BusinessApiError } from '../../base/errors.ts'
import type { Context, ScreenPage } from '../context.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { table } from './table.ts'

/** Meaning of a badge, shown by its colour and icon. */
export type Tone = 'good' | 'bad' | 'wait' | 'quiet'

/** Renders a status with the tone's icon and colour. */
export function badge(tone: Tone, text: string): Html {
  return html`<b class="ba-badge ba-${tone}">${text}</b>`
}

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

/** Renders a highlighted message. Screen readers announce errors immediately. */
export function notice(tone: Tone, title: string, content: Content = null): Html {
  const role = tone === 'bad' ? 'alert' : 'status'
  return html`<div class="ba-notice ba-${tone}" role="${role}"><div><p><strong>${title}</strong></p>${content}</div></div>`
}

/** Renders the placeholder of an empty list with a suggested next action. */
export function empty(text: string, act: Content = null): Html {
  return html`<div class="ba-empty"><p>${text}</p>${act}</div>`
}

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

/** Renders a code block with a copy button, which is hidden without JavaScript. */
export function codeBlock(t: Texts, code: Content, label: string): Html {
  return html`<div class="ba-code"><pre tabindex="0" aria-label="${label}"><code>${code}</code></pre><button class="ba-button" type="button" data-copy hidden>${t`Copy`}</button></div>`
}

/** Renders an ID with a copy button. */
export function copyableId(
  t: Texts,
  label: string,
  id: string,
  shown: Content = html`<code>${id}</code>`,
): Html {
  return html`<span class="ba-id">${shown} <button class="ba-copy" type="button" data-copy="${id}" aria-label="${t`Copy ${label}`}" hidden>${t`Copy`}</button></span>`
}

/** Renders a secret that is shown only once. */
export function secretField(t: Texts, label: string, secret: string): Html {
  return html`<div class="ba-secret" data-secret><label for="secret">${label}</label>
<div class="ba-code"><input class="ba-input" id="secret" readonly spellcheck="false" autocomplete="off" value="${secret}"><button class="ba-button ba-button-main" type="button" data-copy data-focus hidden>${t`Copy`}</button></div></div>`
}

/** A field with its current value and the submitted value. */
export type Compared = readonly [field: string, present: string, yours: string]

/** Shows the submitted values next to the current ones, which have changed since the form was rendered. */
export function comparison(t: Texts, fields: readonly Compared[]): Html {
  return table<Compared>(
    t`Current values and yours`,
    [
      { head: t`Field`, cell: ([field]) => field },
      { head: t`Current`, cell: ([, present]) => present || t`None` },
      { head: t`Yours`, cell: ([, , yours]) => yours || t`None` },
    ],
    fields.filter(([, present, yours]) => present !== yours),
  )
}

/** Renders the page for a form that was submitted twice; returns `null` for any other error. */
export function alreadyMade(
  error: unknown,
  { t, link }: Context,
  kind: 'key' | 'endpoint',
): ScreenPage | null {
  if (!(error instanceof BusinessApiError && error.code === ALREADY_EXISTS)) return null
  const id = error.record && 'id' in error.record ? String(error.record.id) : null
  const [title, text, root] =
    kind === 'key'
      ? ([
          t`API key already created`,
          t`You can view a key only once. Rotate it to get a new one.`,
          '/keys',
        ] as const)
      : ([
          t`Already saved`,
          t`You can view a signing secret only once. Rotate it to get a new one.`,
          '/endpoints',
        ] as const)
  const content = html`${notice('wait', text, html`<p>${t`Resubmitting the form changed nothing.`}</p>`)}
<p>${buttonLink(link(id === null ? root : `${root}/${id}`), t`Continue`, 'main')}</p>`
  return { title, content, status: 409 }
}
