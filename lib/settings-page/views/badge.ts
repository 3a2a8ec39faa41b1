import { type Html, html } from '../html.ts'

/** The meaning of a colour and an icon. */
export type Tone = 'good' | 'bad' | 'wait' | 'quiet'

/** A state as a word, with the icon and the colour of the tone. */
export function badge(tone: Tone, text: string): Html {
  return html`<b class="ba-badge ba-${tone}">${text}</b>`
}
