/**
 * Creates a value once per process. In `next dev`, modules are reloaded after every edit. Without this, each edit would
 * open another store and leave the connections of the old one open.
 */
export function kept<Value>(name: string, make: () => Value): Value {
  const values = globalThis as unknown as Record<symbol, Value | undefined>
  const key = Symbol.for(`business-api-example.${name}`)
  const value = values[key] ?? make()
  values[key] = value
  return value
}
