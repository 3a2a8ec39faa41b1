/** A gap-free series of an organization's numbers: `INV-2026` gives `INV-2026-0001`, `INV-2026-0002` and so on. */
export interface NumberSeries {
  readonly series: string
}

/** The number of a new document: given by the host, or the next one of a series, which the store finds. */
export type NewNumber = string | NumberSeries

/** The series of a kind of document in the year, in UTC, of its date. */
export function seriesOf(kind: 'INV' | 'PROP', date: string): NumberSeries {
  return { series: `${kind}-${date.slice(0, 4)}` }
}

/** A number of a series: at least four digits, so that lists look orderly. */
export function formatNumber({ series }: NumberSeries, count: number): string {
  return `${series}-${String(count).padStart(4, '0')}`
}
