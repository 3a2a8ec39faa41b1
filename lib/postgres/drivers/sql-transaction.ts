/**
 * A transaction of the host with any driver, in the one form that the store needs. `pgTransaction`, `drizzleTransaction`,
 * `kyselyTransaction` and `prismaTransaction` make it; a host with another driver writes it.
 */
export interface SqlTransaction {
  /**
   * Sends one statement in the transaction. Never called again before the previous promise is settled.
   *
   * @param text SQL with the parameters `$1`, `$2` …; every parameter has a cast
   * @param parameters the values: strings, numbers or null
   * @returns the rows: objects with the columns in the order of the statement, or arrays. Every column is text
   * @throws the driver's error, with PostgreSQL's SQLSTATE in `code` of the error or of a `cause`
   */
  query(text: string, parameters: readonly SqlParameter[]): Promise<readonly SqlRow[]>
}

/** The value of a parameter. */
export type SqlParameter = string | number | null

/** A row, by column or by position. */
export type SqlRow = Readonly<Record<string, unknown>> | readonly unknown[]

/** Tells the form from a client or pool of a driver: such an object has a method to connect. */
export function isSqlTransaction(given: unknown): given is SqlTransaction {
  if (typeof given !== 'object' || given === null) return false
  return typeof Reflect.get(given, 'query') === 'function' && !('connect' in given)
}

/** Creates the error for a value that a driver's helper cannot use. */
export function unusable(reason: string): TypeError {
  return new TypeError(`Cannot use the transaction because ${reason}`)
}
