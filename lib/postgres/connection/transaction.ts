import type { TransactionSql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { isSqlTransaction, type SqlRow, type SqlTransaction } from '../drivers/sql-transaction.ts'
import type { ExplainError } from '../schema/schema-fault.ts'
import {
  type BuildTagged,
  type ByteRow,
  onlyRow,
  type RecordDatabase,
  readAnswers,
  toText,
  withTagColumn,
} from './database.ts'
import { driverError, isConflict, isParentGone, isUnavailable } from './driver-faults.ts'
import { renderStatement, textTemplate } from './statement-text.ts'

/**
 * A postgres.js transaction: the argument of `sql.begin`'s callback. The type is not the driver's own, because a host's declaration
 * files could not name a type of a package that the host does not depend on.
 */
export interface PostgresTransaction {
  readonly unsafe: (...args: never[]) => unknown
  /** Tells a transaction from a pool, which would commit each statement by itself. */
  readonly savepoint: (...args: never[]) => unknown
}

/**
 * Creates a database on the host's transaction. A statement is sent once and waits as long as the host's connection allows. A write
 * that has waited for a locked table for more than 4 s is rejected and writes nothing; a wait for another holder of its idempotency key
 * does not count. A failed statement fails the whole transaction, and the host decides about a retry.
 *
 * Due deliveries wake no loop, because only the host knows when it commits: a delivery loop's next poll finds them.
 */
export function createTransactionDatabase(
  given: PostgresTransaction | SqlTransaction,
  explain: ExplainError,
): RecordDatabase {
  const send = isSqlTransaction(given) ? throughDriver(given) : throughPostgresJs(checkTransaction(given))
  let tags = 0

  async function bytes(build: BuildTagged): Promise<ByteRow> {
    try {
      return await send(build, String(++tags))
    } catch (thrown) {
      const error = driverError(thrown)
      if (!isUnavailable(error) && (!isConflict(error) || isParentGone(error))) throw await explain(error)
      throw storeUnavailable('Cannot continue the transaction', error)
    }
  }

  return {
    rowFor: async (share, build) => toText(await bytes(withTagColumn(build, share))),
    bytesFor: (_share, build) => bytes(build),
    wakeUp: { signal() {} },
  }
}

/** Sends a statement and reads the row of its result. */
type Send = (build: BuildTagged, answerTag: string) => Promise<ByteRow>

function throughPostgresJs(transaction: TransactionSql): Send {
  return async (build, answerTag) =>
    onlyRow(readAnswers(await build(transaction, answerTag).raw(), answerTag))
}

function throughDriver(transaction: SqlTransaction): Send {
  // One at a time: some drivers have no queue, and pg is about to drop its queue.
  let previous: Promise<unknown> = Promise.resolve()

  return (build, answerTag) => {
    const { text, parameters } = renderStatement(build(textTemplate, answerTag))
    const sent = previous.then(() => transaction.query(text, parameters))
    previous = sent.catch(() => {})
    return sent.then((rows) => onlyRow(readAnswers(toRawRows(rows), answerTag)))
  }
}

function toRawRows(rows: readonly SqlRow[]): (Buffer | null)[][] {
  if (!Array.isArray(rows)) throw unreadable('query() must return the rows as an array')
  return rows.map((row) => Object.values(row).map(toBytes))
}

function toBytes(value: unknown): Buffer | null {
  if (value === null) return null
  if (typeof value !== 'string') throw unreadable(`a column of type text was returned as ${typeof value}`)
  return Buffer.from(value)
}

function unreadable(reason: string): TypeError {
  return new TypeError(`Cannot read the result of the driver: ${reason}`)
}

function checkTransaction(given: unknown): TransactionSql {
  if (typeof given === 'function' && 'savepoint' in given) return given as TransactionSql
  throw new TypeError(
    "Cannot use the transaction because it is neither the argument of the callback of postgres.js' sql.begin(…) nor the " +
      'result of pgTransaction(…), drizzleTransaction(…), kyselyTransaction(…) or prismaTransaction(…)',
  )
}
