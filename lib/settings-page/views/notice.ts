import { type Content, type Html, html } from '../html.ts'
import type { Tone } from './badge.ts'

/** Renders a highlighted message. Screen readers announce errors immediately. */
export function notice(tone: Tone, title: string, content: Content = null): Html {
  const role = tone === 'bad' ? 'alert' : 'status'
  return html`<div class="ba-notice ba-${tone}" role="${role}"><div><p><strong>${title}</strong></p>${content}</div></div>`
}

/** Renders the placeholder of an empty list with a suggested next action. */
export function empty(text: string, act: Content = null): Html {
  return html`<div class="ba-empty"><p>${text}</p>${act}</div>`
}
