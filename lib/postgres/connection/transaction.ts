import type { TransactionSql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import type { ExplainError } from '../schema/schema-fault.ts'
import { type BuildStatement, type ByteRow, type RecordDatabase, readAnswer, toText } from './database.ts'
import { isConflict, isUnavailable } from './driver-faults.ts'

/**
 * A transaction of postgres.js: the argument of the callback of `sql.begin`. The type is not the driver's own, because a host's
 * declaration files could not name a type of a package that the host does not depend on.
 */
export interface PostgresTransaction {
  readonly unsafe: (...args: never[]) => unknown
  /** Tells a transaction from a pool, which would commit each statement by itself. */
  readonly savepoint: (...args: never[]) => unknown
}

/**
 * Creates the database of a transaction of the host. A statement is sent once and waits as long as the host's connection
 * allows; a write that has waited for a lock for more than 4 s is refused and writes nothing. A failed statement fails the whole
 * transaction, and the host decides about a retry.
 *
 * Due deliveries wake no loop, because only the host knows the moment of the commit: the next poll of a delivery loop finds
 * the deliveries.
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
    "Cannot use the transaction because it is not the argument of the callback of postgres.js' sql.begin(…)",
  )
}
