/** A gapless number series. For example, `INV-2026` produces `INV-2026-0001`, `INV-2026-0002` and so on. */
export interface NumberSeries {
  readonly series: string
}

/** A new document's number, or the series to take the next number from. */
export type NewNumber = string | NumberSeries

/** Returns the series for a kind of document and a date's year (UTC). */
export function seriesOf(kind: 'INV' | 'PROP', date: string): NumberSeries {
  return { series: `${kind}-${date.slice(0, 4)}` }
}

/**
 * Formats a document number with at least four digits, so lists look tidy.
 *
 * @example
 * ```ts
 * formatNumber({ series: 'INV-2026' }, 42)   // 'INV-2026-0042'
 * ```
 */
export function formatNumber({ series }: NumberSeries, count: number): string {
  return `${series}-${String(count).padStart(4, '0')}`
}
