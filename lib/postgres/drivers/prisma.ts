import { type SqlTransaction, unusable } from './sql-transaction.ts'

/** The argument of Prisma's interactive `prisma.$transaction(…)` callback. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...parameters: unknown[]): PromiseLike<unknown>
  /** Only clients have this method. */
  readonly $connect?: never
}

/**
 * Adapts an interactive Prisma transaction for `platform.using(…)`.
 *
 * @param transaction the argument of the `prisma.$transaction(…)` callback
 * @throws `TypeError` if this is a client outside a transaction, which would commit each statement separately
 * @example
 * ```ts
 * await prisma.$transaction(async (tx) => {
 *   await platform.using(prismaTransaction(tx)).invoices.issue('org_42', { invoiceId })
 * })
 * ```
 */
export function prismaTransaction(transaction: PrismaTransaction): SqlTransaction {
  if (typeof transaction?.$queryRawUnsafe !== 'function' || '$connect' in transaction) {
    throw unusable("it is not the argument of the callback of Prisma's $transaction(async (tx) => …)")
  }
  return {
    async query(text, parameters) {
      try {
        return (await transaction.$queryRawUnsafe(text, ...parameters)) as Record<string, unknown>[]
      } catch (error) {
        throw readError(error)
      }
    },
  }
}

/** The database error that a driver adapter reports inside a Prisma error. */
interface AdapterFault {
  readonly kind?: string
  readonly originalCode?: string
  readonly originalMessage?: string
  readonly hint?: string
}

/**
 * Extracts PostgreSQL's error from a Prisma error. Failed raw statements all have the code P2010, with the SQLSTATE in
 * `meta.driverAdapterError` (driver adapters) or `meta.code` (Prisma 6's engine). Prisma omits constraint names, so
 * those come from PostgreSQL's message.
 */
function readError(error: unknown): unknown {
  const meta = Object(Reflect.get(Object(error), 'meta'))
  const fault: AdapterFault = Object(meta.driverAdapterError?.cause)
  const message = fault.originalMessage ?? meta.message
  const code = fault.originalCode ?? LOST[fault.kind ?? ''] ?? meta.code
  if (typeof code !== 'string') return error
  const [, constraint] = /"([a-z_]+)"$/.exec(String(message)) ?? []
  return Object.assign(new Error(String(message ?? fault.kind), { cause: error }), {
    code,
    hint: fault.hint,
    constraint,
  })
}

/** Adapter errors without a PostgreSQL error code, by kind. */
const LOST: Readonly<Record<string, string>> = {
  ConnectionClosed: 'CONNECTION_CLOSED',
  DatabaseNotReachable: 'ECONNREFUSED',
  SocketTimeout: 'ETIMEDOUT',
}
