/** Minimum length of a string to search for within names. Shorter strings occur in too many of them. */
const PART_MIN = 3

/**
 * Returns the end of an error message about a mistyped or shortened name, for example `: did you mean 'keys'?`, or an
 * empty string if no name is similar. A shortened name is the start of, or a word in, exactly one name.
 */
export function suggest(typed: string, names: readonly string[]): string {
  const [nearest] = names
    .map((name) => ({ name, distance: fold(typed) === fold(name) ? 0 : distanceOf(typed, name) }))
    .filter(({ name, distance }) => distance <= Math.max(1, Math.floor(name.length / 3)))
    .sort((a, b) => a.distance - b.distance)
  const name = nearest?.name ?? findWhole(typed, names)
  return name === undefined ? '' : `: did you mean '${name}'?`
}

/** Removes spelling differences, for example between `as_of` and `asOf`. */
function fold(name: string): string {
  return name.replaceAll(/[-_]/g, '').toLowerCase()
}

/** Returns the only name that contains the string. */
function findWhole(typed: string, names: readonly string[]): string | undefined {
  const part = typed.replace(/^-+/, '')
  if (part.length < PART_MIN) return undefined
  const wholes = names.filter((name) => {
    const bare = name.replace(/^-+/, '')
    return bare.startsWith(part) || bare.split(/[-._:]/).includes(part)
  })
  return wholes.length === 1 ? wholes[0] : undefined
}

/** Returns how many characters to change, add, remove or swap (optimal string alignment distance). */
function distanceOf(from: string, to: string): number {
  let before: readonly number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1]
    for (const [column, other] of [...to].entries()) {
      const replaced = (row[column] ?? 0) + (letter === other ? 0 : 1)
      const isSwapped = index > 0 && column > 0 && letter === to[column - 1] && from[index - 1] === other
      const swapped = isSwapped ? (before[column - 1] ?? 0) + 1 : Number.POSITIVE_INFINITY
      next.push(Math.min(replaced, swapped, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row.at(-1) ?? 0
}
