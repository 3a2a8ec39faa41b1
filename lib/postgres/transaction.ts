import type { TransactionSql } from 'postgres'
import { storeUnavailable } from '../errors.ts'
import { type RecordDatabase, readAnswer } from './database.ts'
import { isConflict, isUnavailable } from './sql-states.ts'

/**
 * PostgreSQL in a transaction of the host's. A statement is sent once and waits as long as the host's connection lets it,
 * though what has waited for a row for more than some seconds writes nothing and is refused. What to do when a statement
 * fails is the host's to say, as its transaction has failed with it.
 *
 * Nobody is woken when deliveries are due: only the host knows when it commits, and the poll of a delivery loop finds them.
 */
export function createTransactionDatabase(transaction: TransactionSql): RecordDatabase {
  checkTransaction(transaction)
  let marks = 0
  return {
    async row(build) {
      try {
        const mark = String(++marks)
        return readAnswer(await build(transaction, transaction`${mark}::text`).raw(), mark)
      } catch (error) {
        if (!isUnavailable(error) && !isConflict(error)) throw error
        throw storeUnavailable("Cannot go on with the host's transaction", error)
      }
    },
    due: { announce() {} },
  }
}

function checkTransaction(transaction: unknown): void {
  if (typeof transaction === 'function' && 'savepoint' in transaction) return
  throw new TypeError(
    "Cannot use the transaction as it must be what the callback of postgres.js' sql.begin(…) is given",
  )
}
