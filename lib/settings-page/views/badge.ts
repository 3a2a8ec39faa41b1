import { type Html, html } from '../html.ts'
import { type IconName, icon } from './icon.ts'

/** The meaning of a colour. */
export type Tone = 'good' | 'bad' | 'wait' | 'quiet'

/** A state as a word with an icon and a colour. */
export function badge(tone: Tone, iconName: IconName, text: string): Html {
  return html`<span class="ba-badge ba-${tone}">${icon(iconName)}${text}</span>`
}
