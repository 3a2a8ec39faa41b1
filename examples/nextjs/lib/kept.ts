/**
 * Makes a value once in a process. In `next dev` every edit loads the modules again: without this, each edit would leave the connections of
 * another store open.
 */
export function kept<Value>(name: string, make: () => Value): Value {
  const values = globalThis as unknown as Record<symbol, Value | undefined>
  const key = Symbol.for(`business-api-example.${name}`)
  const value = values[key] ?? make()
  values[key] = value
  return value
}
