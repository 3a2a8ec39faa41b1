/** Selects the records to list. */
export interface ListOf<Stored> {
  readonly limit: number
  /** The last id on the previous page, or `null` for the first page. */
  readonly before: string | null
  /** Defaults to all records. */
  isWanted?(record: Stored): boolean
  /** Returns the sort key. Records are sorted in descending order. Defaults to the id. */
  keyOf?(record: Stored): string
}

/** Returns copies of the matching records, newest first. */
export function listRecords<Stored extends { readonly id: string }>(
  records: Iterable<Stored>,
  { limit, before, isWanted = () => true, keyOf: ownKeyOf }: ListOf<Stored>,
): readonly Stored[] {
  const all = [...records]
  const keyOf = ownKeyOf ?? (({ id }) => id)
  const last = all.find(({ id }) => id === before)
  // An unknown id has no place in another order. Nothing sorts before the empty string.
  const end = (ownKeyOf ? last && ownKeyOf(last) : before) ?? ''
  return all
    .filter((record) => isWanted(record) && (before === null || keyOf(record) < end))
    .sort((one, other) => (keyOf(one) < keyOf(other) ? 1 : -1))
    .slice(0, limit)
    .map((record) => structuredClone(record))
}

/** Returns a copy of a record. */
export function getRecord<Stored>(record: Stored | undefined): Stored | null {
  return structuredClone(record) ?? null
}

/** A filter by the values of fields and by a period in ISO 8601. Absent properties match everything. */
interface LogFilter extends Readonly<Record<string, string | undefined>> {
  readonly since?: string | undefined
  readonly until?: string | undefined
}

/** Returns `true` if a log's entry from the time `at` matches a filter. */
export function isMatch(entry: object, at: string, { since, until, ...values }: LogFilter): boolean {
  const isWithin = (since === undefined || at >= since) && (until === undefined || at < until)
  return isWithin && Object.keys(values).every((name) => isValue(values[name], Reflect.get(entry, name)))
}

/** Returns `true` if a value matches a filter. An absent filter matches everything. */
export function isOneOf(values: readonly string[] | undefined, value: string): boolean {
  return values === undefined || values.includes(value)
}

/** Returns `true` if a value matches a filter. An absent filter matches everything. */
export function isValue(wanted: string | undefined, value: string): boolean {
  return wanted === undefined || wanted === value
}
