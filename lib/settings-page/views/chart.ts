import type { EndedDeliveries } from '../../webhooks/activity.ts'
import { type Content, type Html, html } from '../html.ts'

// Charts without a script. The bars stretch with the page, so labels are outside the SVG and keep their size. Colours are set by classes
// because the Content-Security-Policy forbids inline styles.

/** Heights of the SVGs and the width of a bar including its gap, in SVG units. */
const HEIGHT = 100
const SPARK_HEIGHT = 24
const STEP = 4
/** Minimum height of failures as a ratio, so one failure among thousands is still visible. */
const FAILED_MIN = 0.03

/** The texts around a chart. */
export interface ChartTexts {
  /** The chart in one sentence, for screen readers. */
  readonly summary: string
  /** The labels of the vertical axis, from the top. */
  readonly scale: readonly [top: string, middle: string, bottom: string]
  /** The labels of the horizontal axis, each at the start of its section. */
  readonly times: readonly string[]
}

/** A link on a bar. Links are for pointers only, so the page needs the same links elsewhere for keyboards. */
export interface BarLink {
  readonly href: string
  /** Shown as a tooltip. */
  readonly text: string
}

/**
 * Renders delivered and failed deliveries as stacked bars on a scale from 0 to {@link scaleOf}.
 *
 * @param linkOf returns the link of a bar, and of its failures if `isFailed`
 */
export function stackedChart(
  bars: readonly EndedDeliveries[],
  { summary, scale, times }: ChartTexts,
  linkOf: (bar: EndedDeliveries, isFailed: boolean) => BarLink,
): Html {
  const width = bars.length * STEP
  const top = scaleOf(bars)
  const labels = (all: readonly string[]): Content => all.map((text) => html`<span>${text}</span>`)
  // The whole column can be clicked: failures and the space above them, and the rest below.
  const area = (bar: EndedDeliveries, isFailed: boolean, x: number, from: number, to: number): Html => {
    const { href, text } = linkOf(bar, isFailed)
    return html`<a href="${href}" tabindex="-1"><title>${text}</title><path d="M${x} ${from}V${to}"/></a>`
  }
  const areas = bars.map((bar, index) => {
    const x = index * STEP + STEP / 2
    if (bar.failed + bar.delivered === 0) return null
    if (bar.failed === 0) return area(bar, false, x, HEIGHT, 0)
    const { border } = heightsOf(bar, top, HEIGHT)
    return [bar.delivered > 0 && area(bar, false, x, HEIGHT, border), area(bar, true, x, border, 0)]
  })
  return html`<div class="ba-plot"><p class="ba-hidden">${summary}</p><div class="ba-scale" aria-hidden="true">${labels(scale)}</div>
<svg class="ba-bars" aria-hidden="true" viewBox="0 0 ${width} ${HEIGHT}" preserveAspectRatio="none"><path class="ba-grid" d="M0 0H${width}M0 50H${width}M0 ${HEIGHT}H${width}"/>${paths(bars, top, HEIGHT)}<g stroke="transparent">${areas}</g></svg>
<div class="ba-times" aria-hidden="true">${labels(times)}</div></div>`
}

/** Renders only the bars, for table rows that show the numbers as text. */
export function sparkline(bars: readonly EndedDeliveries[]): Html {
  return html`<svg class="ba-spark" aria-hidden="true" viewBox="0 0 ${bars.length * STEP} ${SPARK_HEIGHT}" preserveAspectRatio="none">${paths(bars, highestOf(bars), SPARK_HEIGHT)}</svg>`
}

/** Returns the top of a chart's scale, which is at least the highest bar and can be halved. */
export function scaleOf(bars: readonly EndedDeliveries[]): number {
  const highest = highestOf(bars)
  const power = 10 ** Math.floor(Math.log10(highest))
  return [1, 2, 4, 6, 8, 10].map((times) => times * power).find((top) => top >= highest && top > 1) ?? highest
}

function highestOf(bars: readonly EndedDeliveries[]): number {
  return Math.max(1, ...bars.map(({ delivered, failed }) => delivered + failed))
}

/** Renders each bar as a line, which takes few bytes. */
function paths(bars: readonly EndedDeliveries[], top: number, height: number): Content {
  let [good, bad] = ['', '']
  for (const [index, bar] of bars.entries()) {
    const x = index * STEP + STEP / 2
    const { border, end } = heightsOf(bar, top, height)
    if (border < height) good += `M${x} ${height}V${border}`
    if (bar.failed > 0) bad += `M${x} ${border}V${end}`
  }
  return html`<path class="ba-good" d="${good}"/><path class="ba-bad" d="${bad}"/>`
}

/** Returns where the delivered part of a bar ends and the failed part begins, and where that ends. */
function heightsOf(
  { delivered, failed }: EndedDeliveries,
  top: number,
  height: number,
): { readonly border: number; readonly end: number } {
  const failedHeight = failed === 0 ? 0 : Math.ceil(Math.max(FAILED_MIN, failed / top) * height)
  const border = Math.max(failedHeight, height - Math.round((delivered / top) * height))
  return { border, end: border - failedHeight }
}
