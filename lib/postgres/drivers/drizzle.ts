import { type SqlRow, type SqlTransaction, unusable } from './sql-transaction.ts'

/** The argument of Drizzle's `db.transaction(…)` callback. Databases don't have `rollback`. */
export interface DrizzleTransaction {
  execute(query: never): PromiseLike<unknown>
  rollback(): never
}

/** The `sql` tag from drizzle-orm. */
export type DrizzleSql = (text: TemplateStringsArray, ...parameters: unknown[]) => unknown

/**
 * Adapts a Drizzle transaction on pg or postgres.js for `platform.using(…)`.
 *
 * @param transaction the argument of the `db.transaction(…)` callback
 * @param sql the `sql` tag from drizzle-orm
 * @throws `TypeError` if this is a database outside a transaction, which would commit each statement separately
 * @example
 * ```ts
 * await drizzle.transaction(async (tx) => {
 *   await platform.using(drizzleTransaction(tx, drizzleSql)).invoices.issue('org_42', { invoiceId })
 * })
 * ```
 */
export function drizzleTransaction(transaction: DrizzleTransaction, sql: DrizzleSql): SqlTransaction {
  if (typeof transaction?.execute !== 'function' || typeof transaction.rollback !== 'function') {
    throw unusable("it is not the argument of the callback of Drizzle's db.transaction(…)")
  }
  if (typeof sql !== 'function') throw unusable('the second argument is not the sql of drizzle-orm')
  return {
    async query(text, parameters) {
      const { strings, positions } = splitText(text)
      const query = sql(strings, ...positions.map((position) => parameters[position - 1]))
      // pg returns an object with rows, postgres.js just the rows.
      const answer = await transaction.execute(query as never)
      return (Array.isArray(answer) ? answer : Reflect.get(Object(answer), 'rows')) as readonly SqlRow[]
    },
  }
}

/** Splits a string at its parameters. Our statements never have `$1` inside a literal. */
function splitText(text: string): { strings: TemplateStringsArray; positions: number[] } {
  const strings = text.split(/\$\d+/)
  const positions = [...text.matchAll(/\$(\d+)/g)].map(([, position]) => Number(position))
  return { strings: Object.assign(strings, { raw: strings }), positions }
}
