import { type Content, type Html, html } from '../html.ts'
import type { Texts } from '../texts.ts'

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
