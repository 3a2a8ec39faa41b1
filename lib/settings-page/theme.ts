import { isMatching, rejectUnknown } from '../base/options.ts'

/** Colours in the form `#rgb` or `#rrggbb`. */
export interface ThemeColours {
  /** Buttons and links. */
  readonly accent?: string | undefined
  /** Text on buttons in the accent colour. */
  readonly onAccent?: string | undefined
  readonly background?: string | undefined
  /** Cards, tables and fields. */
  readonly surface?: string | undefined
  readonly text?: string | undefined
  /** Secondary text. */
  readonly muted?: string | undefined
  /** Borders of form fields. */
  readonly border?: string | undefined
  readonly danger?: string | undefined
  readonly warning?: string | undefined
  readonly success?: string | undefined
  /** The focus ring. */
  readonly focus?: string | undefined
}

/** The page's appearance. Every property has a default. */
export interface Theme {
  /** `auto` uses the browser's preference. Defaults to `auto`. */
  readonly mode?: 'auto' | 'light' | 'dark' | undefined
  readonly light?: ThemeColours | undefined
  readonly dark?: ThemeColours | undefined
  /** Corner radius in px or rem, for example `6px`. */
  readonly radius?: string | undefined
  /** Font families, for example `"Inter", sans-serif`. */
  readonly font?: string | undefined
  /** The URL of an image above the navigation, on the same origin. Defaults to none. */
  readonly logo?: string | undefined
}

type Colours = Readonly<Record<keyof ThemeColours, string>>

const LIGHT: Colours = {
  accent: '#3f4bd8',
  onAccent: '#ffffff',
  background: '#f6f7f9',
  surface: '#ffffff',
  text: '#16181d',
  muted: '#5a6070',
  border: '#868d9c',
  danger: '#b3261e',
  warning: '#8a5300',
  success: '#136c3a',
  focus: '#3f4bd8',
}

const DARK: Colours = {
  accent: '#a5b0ff',
  onAccent: '#12141c',
  background: '#0e1015',
  surface: '#171a21',
  text: '#eceef3',
  muted: '#a3aab9',
  border: '#757d8e',
  danger: '#ff9a92',
  warning: '#f3bd6a',
  success: '#79d9a1',
  focus: '#a5b0ff',
}

const NAMES = Object.keys(LIGHT) as readonly (keyof ThemeColours)[]

/**
 * Compiles a theme to CSS rules that set the tokens.
 *
 * @throws `TypeError` if a value is not a colour, length or font, or if a text colour has too little contrast
 */
export function compileTheme(theme: Theme): string {
  rejectUnknown(
    theme,
    { mode: true, light: true, dark: true, radius: true, font: true, logo: true },
    'theme.',
  )
  const { mode = 'auto', light = {}, dark = {}, radius, font } = theme
  rejectUnknown(light, LIGHT, 'theme.light.')
  rejectUnknown(dark, DARK, 'theme.dark.')
  if (!['auto', 'light', 'dark'].includes(mode)) refuse('mode', "'auto', 'light' or 'dark'")
  if (radius !== undefined && !isMatching(radius, /^\d{1,2}(\.\d{1,3})?(px|rem)$/))
    refuse('radius', "a length like '6px'")
  if (font !== undefined && !isMatching(font, /^[\w\s,"'-]{1,200}$/))
    refuse('font', 'a list of font families')
  const shared = `${radius ? `--ba-radius:${radius};` : ''}${font ? `--ba-font:${font};` : ''}`
  const lightTokens = tokensOf('light', { ...LIGHT, ...given(light) })
  const darkTokens = tokensOf('dark', { ...DARK, ...given(dark) })
  const first = mode === 'dark' ? darkTokens : lightTokens
  const scheme = mode === 'auto' ? 'light dark' : mode
  const base = `.ba{color-scheme:${scheme};${shared}${first}}`
  const automatic = mode === 'auto' ? `@media (prefers-color-scheme:dark){.ba{${darkTokens}}}` : ''
  return `@layer business-api{${base}${automatic}}`
}

function given(colours: ThemeColours): Partial<Colours> {
  return Object.fromEntries(Object.entries(colours).filter(([, colour]) => colour !== undefined))
}

/** Minimum contrast by WCAG 2.2: 4.5 for text (1.4.3), 3 for field borders and focus rings (1.4.11). */
const READABLE: readonly (readonly [keyof ThemeColours, keyof ThemeColours, number])[] = [
  ['text', 'background', 4.5],
  ['text', 'surface', 4.5],
  ['muted', 'background', 4.5],
  ['muted', 'surface', 4.5],
  ['accent', 'background', 4.5],
  ['accent', 'surface', 4.5],
  ['onAccent', 'accent', 4.5],
  ['danger', 'surface', 4.5],
  ['warning', 'surface', 4.5],
  ['success', 'surface', 4.5],
  ['border', 'surface', 3],
  ['focus', 'background', 3],
  ['focus', 'surface', 3],
]

function tokensOf(mode: 'light' | 'dark', colours: Colours): string {
  for (const name of NAMES) {
    if (parseColour(colours[name]) === null) refuse(`${mode}.${name}`, "a colour like '#3f4bd8'")
  }
  for (const [front, back, least] of READABLE) {
    const contrast = contrastOf(colours[front], colours[back])
    if (contrast < least) {
      const requirement = `${least}:1 or more against ${back}: the contrast is ${contrast.toFixed(2)}:1`
      refuse(`${mode}.${front}`, requirement)
    }
  }
  return NAMES.map(
    (name) => `--ba-${name.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`)}:${colours[name]};`,
  ).join('')
}

function refuse(name: string, requirement: string): never {
  throw new TypeError(`Option 'theme.${name}' must be ${requirement}`)
}

// --- Contrast ---

/** Parses `#rgb` or `#rrggbb`; returns `null` for anything else. */
function parseColour(text: string): readonly [number, number, number] | null {
  if (!isMatching(text, /^#([0-9a-f]{3}|[0-9a-f]{6})$/i)) return null
  const digits = text.length === 4 ? text.slice(1).replace(/./g, '$&$&') : text.slice(1)
  return [0, 2, 4].map((at) => Number.parseInt(digits.slice(at, at + 2), 16)) as [number, number, number]
}

/** Returns the contrast ratio of two colours as defined by WCAG 2.2, from 1 to 21. */
function contrastOf(one: string, other: string): number {
  const [darker = 0, lighter = 0] = [luminanceOf(one), luminanceOf(other)].sort((a, b) => a - b)
  return (lighter + 0.05) / (darker + 0.05)
}

function luminanceOf(colour: string): number {
  const [red, green, blue] = (parseColour(colour) ?? [0, 0, 0]).map((part) => {
    const share = part / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
