/**
 * ISO 4217 currencies that don't have two decimals. The table is embedded, because `Intl` follows usage rather than the standard, and
 * differs from the standard for seventeen currencies, IQD, COP and HUF among them.
 */
const MINOR_UNITS: ReadonlyMap<string, number> = new Map([
  ...['BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'JPY', 'KMF', 'KRW', 'PYG'].map((code) => [code, 0] as const),
  ...['RWF', 'UGX', 'UYI', 'VND', 'VUV', 'XAF', 'XOF', 'XPF'].map((code) => [code, 0] as const),
  ...['BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND'].map((code) => [code, 3] as const),
  ...['CLF', 'UYW'].map((code) => [code, 4] as const),
])

/** Returns a currency's number of decimals: 3 for TND, 0 for JPY, 2 for EUR. */
export function minorUnits(currency: string): number {
  return MINOR_UNITS.get(currency) ?? 2
}
