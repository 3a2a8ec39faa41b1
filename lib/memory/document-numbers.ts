import { ALREADY_EXISTS, refused } from '../base/errors.ts'
import { formatNumber, type NewNumber } from '../resources/document-numbers.ts'
import type { Organization } from './state.ts'

type Numbered = ReadonlyMap<string, { readonly number: string }>

/**
 * Returns a record's existing number, the given number, or the next free number in the series.
 *
 * @throws `BusinessApiError` with code `already_exists` if another record has the given number
 */
export function numberOf(
  { numbers }: Organization,
  records: Numbered,
  { id, number }: { readonly id: string; readonly number: NewNumber },
): string {
  const known = records.get(id)
  if (known) return known.number
  const taken = new Set([...records.values()].map((record) => record.number))
  if (typeof number === 'string') {
    if (!taken.has(number)) return number
    throw refused('Cannot create the record', ALREADY_EXISTS, 'its number is already in use')
  }
  let count = numbers.get(number.series) ?? 0
  do count++
  while (taken.has(formatNumber(number, count)))
  numbers.set(number.series, count)
  return formatNumber(number, count)
}
