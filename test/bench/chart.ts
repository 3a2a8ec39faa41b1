import { type Figures, findSeries, medianOf } from './figures.ts'
import type { PartName } from './options.ts'

// A chart as SVG text: bars in groups, longest bar of each group at full width. The colours are readable on light and on dark pages.

const GROUPS: readonly (readonly [PartName, work: string])[] = [
  ['lists', 'list of 50, one key'],
  ['lists', 'list of 50, 1,000 organizations'],
  ['lists', 'list of 1, one key'],
  ['creates', 'create, one endpoint'],
  ['deliveries', 'deliver'],
]
const UNITS: Readonly<Record<string, string>> = { deliveries: 'deliveries per second' }

const WIDTH = 720
const LABEL = 150
const VALUE = 80
const BAR = 18
const TITLE = 30

/** Draws the rates of all subjects: one group of bars for each piece of work that the figures have. */
export function drawChart(figures: Figures): string {
  const pieces: string[] = []
  let y = 8
  for (const [name, work] of GROUPS) {
    const series = (figures[name]?.series ?? []).filter((one) => one.work === work)
    if (series.length === 0) continue
    const longest = Math.max(...series.map((one) => medianOf(one, 'perSecond')))
    pieces.push(
      `<text class="title" x="0" y="${y + 16}">${escapeText(work)}, ${UNITS[name] ?? 'requests per second'}</text>`,
    )
    y += TITLE
    for (const { subject } of series) {
      const found = findSeries(series, work, subject)
      const rate = found ? medianOf(found, 'perSecond') : 0
      const width = Math.max(1, ((WIDTH - LABEL - VALUE) * rate) / longest)
      const kind = subject.startsWith('ours') ? 'ours' : 'other'
      pieces.push(
        `<text x="${LABEL - 8}" y="${y + 13}" text-anchor="end">${escapeText(subject)}</text>`,
        `<rect class="${kind}" x="${LABEL}" y="${y}" width="${width.toFixed(1)}" height="${BAR - 4}" rx="2"/>`,
        `<text x="${(LABEL + width + 6).toFixed(1)}" y="${y + 12}">${Math.round(rate).toLocaleString('en-US')}</text>`,
      )
      y += BAR
    }
    y += 12
  }
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img" aria-label="Rates beside peers">`,
    '<style>',
    'text { font: 12px system-ui, sans-serif; fill: #333; }',
    '.title { font-weight: 600; }',
    '.ours { fill: #2f74c0; }',
    '.other { fill: #9aa3ad; }',
    '@media (prefers-color-scheme: dark) { text { fill: #ddd; } .ours { fill: #6aa9e9; } .other { fill: #68717b; } }',
    '</style>',
    ...pieces,
    '</svg>',
  ].join('\n')}\n`
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
