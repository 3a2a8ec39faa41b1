/** A gap-free series of an organization's numbers: `INV-2026` gives `INV-2026-0001`, `INV-2026-0002` and so on. */
export interface NumberSeries {
  readonly series: string
}

/** The number of a new document: a number that the host gives, or a series of which the store takes the next number. */
export type NewNumber = string | NumberSeries

/** Names the series of a kind of document for the year of a date, in UTC. */
export function seriesOf(kind: 'INV' | 'PROP', date: string): NumberSeries {
  return { series: `${kind}-${date.slice(0, 4)}` }
}

/** Formats a number of a series with at least four digits, so that lists look orderly. */
export function formatNumber({ series }: NumberSeries, count: number): string {
  return `${series}-${String(count).padStart(4, '0')}`
}
