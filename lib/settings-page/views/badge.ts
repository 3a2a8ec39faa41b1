import { type Html, html } from '../html.ts'

/** What a badge's colour and icon stand for. */
export type Tone = 'good' | 'bad' | 'wait' | 'quiet'

/** Renders a status with the tone's icon and colour. */
export function badge(tone: Tone, text: string): Html {
  return html`<b class="ba-badge ba-${tone}">${text}</b>`
}
