import type { TransactionSql } from 'postgres'
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
import { driverError, isConflict, isParentGone, isUnavailable, unavailable } from './driver-faults.ts'
import { renderStatement, textTemplate } from './statement-text.ts'

/**
 * A postgres.js transaction, as passed to the callback of `sql.begin`. This isn't the driver's own type, because hosts
 * that don't depend on postgres.js couldn't name that in their declaration files.
 */
export interface PostgresTransaction {
  readonly unsafe: (...args: never[]) => unknown
  /** Only transactions have this method. A pool would commit each statement separately. */
  readonly savepoint: (...args: never[]) => unknown
}

/**
 * Creates a database that runs statements in the host's transaction. Statements are sent once and can take as long as
 * the host's connection allows. A write that waits more than 4 seconds for a locked table is rejected without writing
 * anything, not counting the wait for another holder of its idempotency key. A failed statement aborts the whole
 * transaction, and the host decides whether to retry.
 *
 * Delivery loops aren't woken up, since only the host knows when the transaction commits. Their next poll finds the due
 * deliveries.
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
      throw unavailable(error, 'continue the transaction')
    }
  }

  return {
    rowFor: async (share, build) => toText(await bytes(withTagColumn(build, share))),
    bytesFor: (_share, build) => bytes(build),
    wakeUp: { signal() {} },
  }
}

/** Sends a statement and returns the only row of its result. */
type Send = (build: BuildTagged, answerTag: string) => Promise<ByteRow>

function throughPostgresJs(transaction: TransactionSql): Send {
  return async (build, answerTag) =>
    onlyRow(readAnswers(await build(transaction, answerTag).raw(), answerTag))
}

function throughDriver(transaction: SqlTransaction): Send {
  // Statements are sent one at a time because some drivers don't queue, and pg is going to remove its queue.
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
