/**
 * ISO 4217 currencies that don't have two decimal places. We don't use `Intl`, because it follows common usage rather
 * than the standard and differs for 17 currencies, including IQD, COP and HUF.
 */
const MINOR_UNITS: ReadonlyMap<string, number> = new Map([
  ...['BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'JPY', 'KMF', 'KRW', 'PYG'].map((code) => [code, 0] as const),
  ...['RWF', 'UGX', 'UYI', 'VND', 'VUV', 'XAF', 'XOF', 'XPF'].map((code) => [code, 0] as const),
  ...['BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND'].map((code) => [code, 3] as const),
  ...['CLF', 'UYW'].map((code) => [code, 4] as const),
])

/** Returns a currency's number of decimal places, for example 3 for TND, 0 for JPY and 2 for EUR. */
export function minorUnits(currency: string): number {
  return MINOR_UNITS.get(currency) ?? 2
}
