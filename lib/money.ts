/** How many digits a decimal string has after its point: 3 for "1250.000", 0 for "900". */
export function decimalsOf(decimal: string): number {
  const point = decimal.indexOf('.')
  return point === -1 ? 0 : decimal.length - point - 1
}
