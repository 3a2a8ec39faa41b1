/** The target of a request below a mount path. */
export interface Target {
  /** Empty, or with a slash at its beginning. */
  readonly path: string
  /** The part after the `?`; may be empty. */
  readonly query: string
}

/** Splits the target of a request into path and query below the mount path; null when the target is not below. */
export function splitTarget(target: string, basePath: string): Target | null {
  if (!target.startsWith(basePath)) return null
  const mark = target.indexOf('?')
  const path = target.slice(basePath.length, mark === -1 ? undefined : mark)
  if (path !== '' && !path.startsWith('/')) return null
  return { path, query: mark === -1 ? '' : target.slice(mark + 1) }
}

/** The path of a target, without its query: queries can hold personal data, and have no place in a log. */
export function pathOf(target: string): string {
  return target.replace(/[?#].*$/s, '')
}
