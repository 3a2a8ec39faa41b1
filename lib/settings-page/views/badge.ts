import { type Html, html } from '../html.ts'

/** Meaning of a badge, shown by its colour and icon. */
export type Tone = 'good' | 'bad' | 'wait' | 'quiet'

/** Renders a status with the tone's icon and colour. */
export function badge(tone: Tone, text: string): Html {
  return html`<b class="ba-badge ba-${tone}">${text}</b>`
}
