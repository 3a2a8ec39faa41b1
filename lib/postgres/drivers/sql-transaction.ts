/**
 * The host's transaction, for any driver. Created by `pgTransaction`, `drizzleTransaction`, `kyselyTransaction` and
 * `prismaTransaction`. Implement this yourself for other drivers.
 */
export interface SqlTransaction {
  /**
   * Runs a statement in the transaction. Never called again until the previous promise is settled.
   *
   * @param text SQL with the parameters `$1`, `$2` …, each with a cast
   * @param parameters the parameter values
   * @returns the rows, either as objects with columns in the statement's order or as arrays. All columns are text
   * @throws the driver's error, with PostgreSQL's SQLSTATE as the `code` of the error or of one of its causes
   */
  query(text: string, parameters: readonly SqlParameter[]): Promise<readonly SqlRow[]>
}

/** A parameter value. */
export type SqlParameter = string | number | null

/** A row, by column name or by position. */
export type SqlRow = Readonly<Record<string, unknown>> | readonly unknown[]

/** Returns `true` for implementations of the interface. A driver's client or pool also has a method to connect. */
export function isSqlTransaction(given: unknown): given is SqlTransaction {
  if (typeof given !== 'object' || given === null) return false
  return typeof Reflect.get(given, 'query') === 'function' && !('connect' in given)
}

/** Creates the error for an unusable transaction. */
export function unusable(reason: string): TypeError {
  return new TypeError(`Cannot use the transaction because ${reason}`)
}
