import { type Column, type Figures, medianOf } from './figures.ts'
import { type Judged, judge } from './goals.ts'

const COLUMNS: readonly (readonly [Column, title: string, digits: number])[] = [
  ['perSecond', 'per second', 0],
  ['p50Ms', 'p50 ms', 1],
  ['p99Ms', 'p99 ms', 1],
  ['walBytes', 'WAL bytes', 0],
  ['loadCores', 'load cores', 2],
  ['serverCores', 'server cores', 2],
  ['allCores', 'all cores', 2],
  ['rssMb', 'RSS MB', 0],
]

/** Writes the medians of each part, then the ratios with the goals, as text. */
export function reportFigures(figures: Figures): string {
  const lines: string[] = []
  for (const [name, part] of Object.entries(figures)) {
    lines.push(
      `${name}: ${part.date}, medians of ${part.rounds} rounds of ${part.seconds} s, ${part.connections} connections`,
      `  ${part.machine}`,
      ...table([
        ['', '', ...COLUMNS.map(([, title]) => title)],
        ...part.series.map((series) => [
          series.work,
          series.subject,
          ...COLUMNS.map(([column, , digits]) => show(medianOf(series, column), digits)),
        ]),
      ]),
      ...part.leftOut.map((reason) => `  left out: ${reason}`),
      '',
    )
  }
  lines.push('ratios, medians of the rounds', ...table(judge(figures).map(reportRatio)))
  return lines.join('\n')
}

function reportRatio(judged: Judged): string[] {
  const { text, ratio, atLeast, atMost, isMet } = judged
  const goal = atLeast !== undefined ? `goal ≥ ${atLeast}` : atMost !== undefined ? `goal ≤ ${atMost}` : ''
  return [text, '', ratio.toFixed(2), goal, isMet === null ? '' : isMet ? 'met' : 'MISSED']
}

function show(value: number, digits: number): string {
  return Number.isNaN(value) ? '' : value.toFixed(digits)
}

/** Lays out rows: two columns of words, the others of numbers. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows.reduce<number[]>(
    (known, row) => row.map((cell, index) => Math.max(known[index] ?? 0, cell.length)),
    [],
  )
  return rows.map((row) => {
    const cells = row.map((cell, index) =>
      index < 2 ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0),
    )
    return `  ${cells.join('  ')}`.trimEnd()
  })
}
