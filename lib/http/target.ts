/** A request target relative to a mount path. */
export interface Target {
  /** Empty or starts with a slash. */
  readonly path: string
  /** Everything after the `?`, can be empty. */
  readonly query: string
}

/** Splits a request target below a mount path into path and query. Returns `null` if it's outside the mount path. */
export function splitTarget(target: string, basePath: string): Target | null {
  if (!target.startsWith(basePath)) return null
  const mark = target.indexOf('?')
  const path = target.slice(basePath.length, mark === -1 ? undefined : mark)
  if (path !== '' && !path.startsWith('/')) return null
  return { path, query: mark === -1 ? '' : target.slice(mark + 1) }
}

/** Returns a target's path without the query string, which may contain personal data and must not be logged. */
export function pathOf(target: string): string {
  return target.replace(/[?#].*$/s, '')
}
