import { type SqlTransaction, unusable } from './sql-transaction.ts'

/** The argument of Prisma's interactive `prisma.$transaction(…)` callback. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...parameters: unknown[]): PromiseLike<unknown>
  /** Clients have this method, but transactions don't. */
  readonly $connect?: never
}

/**
 * Adapts an interactive Prisma transaction for `platform.using(…)`.
 *
 * @param transaction the argument of the `prisma.$transaction(…)` callback
 * @throws `TypeError` if it's a client outside a transaction, which would commit each statement separately
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

/** The database error inside a Prisma error, as reported by a driver adapter. */
interface AdapterFault {
  readonly kind?: string
  readonly originalCode?: string
  readonly originalMessage?: string
  readonly hint?: string
}

/**
 * Finds PostgreSQL's error in a Prisma error. All failures of raw statements have the code P2010. The SQLSTATE is in
 * `meta.driverAdapterError` (driver adapters) or in `meta.code` (the engine of Prisma 6). Prisma omits constraint
 * names, so we get them from PostgreSQL's message.
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

/** Kinds of faults for which adapters don't have a PostgreSQL error code. */
const LOST: Readonly<Record<string, string>> = {
  ConnectionClosed: 'CONNECTION_CLOSED',
  DatabaseNotReachable: 'ECONNREFUSED',
  SocketTimeout: 'ETIMEDOUT',
}
