import type { TransactionSql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import type { ExplainError } from '../schema/schema-fault.ts'
import { type BuildStatement, type ByteRow, type RecordDatabase, readAnswer, toText } from './database.ts'
import { isConflict, isUnavailable } from './driver-faults.ts'

/**
 * A transaction of postgres.js, whatever types it has: what the callback of `sql.begin` is given. The driver's own type
 * would show through in a host's declarations, where a package that the host does not depend on has no name.
 */
export interface PostgresTransaction {
  readonly unsafe: (...args: never[]) => unknown
  /** A pool, which would commit each statement by itself, has none. */
  readonly savepoint: (...args: never[]) => unknown
}

/**
 * PostgreSQL in a transaction of the host's. A statement is sent once and waits as long as the host's connection lets it,
 * though what has waited for a row for more than some seconds writes nothing and is refused. What to do when a statement
 * fails is the host's to say, as its transaction has failed with it.
 *
 * Nobody is woken when deliveries are due: only the host knows when it commits, and the poll of a delivery loop finds them.
 */
export function createTransactionDatabase(given: PostgresTransaction, explain: ExplainError): RecordDatabase {
  const transaction = checkTransaction(given)
  let tags = 0

  async function bytes(build: BuildStatement): Promise<ByteRow> {
    try {
      const answerTag = String(++tags)
      return readAnswer(await build(transaction, transaction`${answerTag}::text`, answerTag).raw(), answerTag)
    } catch (error) {
      if (!isUnavailable(error) && !isConflict(error)) throw await explain(error)
      throw storeUnavailable("Cannot go on with the host's transaction", error)
    }
  }

  return {
    rowFor: async (_share, build) => toText(await bytes(build)),
    bytesFor: (_share, build) => bytes(build),
    wakeUp: { signal() {} },
  }
}

function checkTransaction(given: unknown): TransactionSql {
  if (typeof given === 'function' && 'savepoint' in given) return given as TransactionSql
  throw new TypeError(
    "Cannot use the transaction as it must be what the callback of postgres.js' sql.begin(…) is given",
  )
}
