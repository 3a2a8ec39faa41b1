/**
 * Formats a decimal string with the given number of decimal places. For example, `('1250', 3)` returns `1250.000`.
 *
 * @returns `null` if the string isn't a decimal number or has too many decimal places
 */
export function withDecimals(decimal: string, decimals: number): string | null {
  const [, whole, fraction = ''] = /^(\d{1,15})(?:\.(\d+))?$/.exec(decimal) ?? []
  if (whole === undefined) return null
  const [kept, rest] = [fraction.slice(0, decimals), fraction.slice(decimals)]
  if (/[1-9]/.test(rest)) return null
  const integer = String(BigInt(whole))
  return decimals === 0 ? integer : `${integer}.${kept.padEnd(decimals, '0')}`
}

/** Formats a decimal string that can be negative. See {@link withDecimals}. */
export function withSignedDecimals(decimal: string, decimals: number): string | null {
  const exact = withDecimals(decimal.replace(/^-/, ''), decimals)
  return exact && isNegative(decimal) ? `-${exact}` : exact
}

/** Subtracts decimal strings with the same number of decimal places. Returns `null` if the result is negative. */
export function subtract(minuend: string, subtrahend: string, decimals: number): string | null {
  const difference = BigInt(minuend.replace('.', '')) - BigInt(subtrahend.replace('.', ''))
  if (difference < 0n) return null
  const digits = String(difference).padStart(decimals + 1, '0')
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** Returns `true` if a number with up to three decimal places fits the currency's precision. */
export function isAsFineAs(amount: number, decimals: number): boolean {
  return Number(amount.toFixed(Math.min(3, decimals))) === amount
}

/** Returns `true` if a decimal string is negative. */
export function isNegative(decimal: string): boolean {
  return decimal.startsWith('-')
}

/** Returns `true` if a decimal string is zero. */
export function isZero(decimal: string): boolean {
  return !/[1-9]/.test(decimal)
}
