import { type Content, type Html, html } from '../html.ts'
import type { Tone } from './badge.ts'

/** A message that stands out. A screen reader speaks bad news at once. */
export function notice(tone: Tone, title: string, content: Content = null): Html {
  const role = tone === 'bad' ? 'alert' : 'status'
  return html`<div class="ba-notice ba-${tone}" role="${role}"><div><p><strong>${title}</strong></p>${content}</div></div>`
}

/** An empty list with a link to the next act. */
export function empty(text: string, act: Content = null): Html {
  return html`<div class="ba-empty"><p>${text}</p>${act}</div>`
}
