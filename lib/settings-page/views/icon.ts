import { type Html, html } from '../html.ts'

const PATHS = {
  check: 'M3 8.5l3.5 3.5L13 4.5',
  cross: 'M4 4l8 8M12 4l-8 8',
  warning: 'M8 2.5l6 11H2zM8 6.5v3.5M8 12v.2',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  clock: 'M8 2a6 6 0 100 12A6 6 0 008 2zM8 5v3.5l2 1.5',
  skip: 'M3 4l5 4-5 4zM12.5 4v8',
  arrow: 'M3 8h9M8.5 4.5L12 8l-3.5 3.5',
} as const

/** The name of an icon. */
export type IconName = keyof typeof PATHS

/** An icon beside words that say the same. */
export function icon(name: IconName): Html {
  return html`<svg class="ba-icon" viewBox="0 0 16 16" aria-hidden="true"><path d="${PATHS[name]}"/></svg>`
}
