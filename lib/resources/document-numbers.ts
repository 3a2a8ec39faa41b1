/** A gap-free series of an organization's numbers: `INV-2026` gives `INV-2026-0001`, `INV-2026-0002` and so on. */
export interface NumberSeries {
  readonly series: string
}

/** The number of a new document: a number that the host gives, or a series of which the store takes the next number. */
export type NewNumber = string | NumberSeries

/** Returns the number series for a kind of document in a date's year, UTC. */
export function seriesOf(kind: 'INV' | 'PROP', date: string): NumberSeries {
  return { series: `${kind}-${date.slice(0, 4)}` }
}

/**
 * Formats a document number with at least four digits, so lists look orderly.
 *
 * @example
 * ```ts
 * formatNumber({ series: 'INV-2026' }, 42)   // 'INV-2026-0042'
 * ```
 */
export function formatNumber({ series }: NumberSeries, count: number): string {
  return `${series}-${String(count).padStart(4, '0')}`
}
