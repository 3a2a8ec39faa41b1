import type { Fragment, ISql as Sql } from 'postgres'
import { BusinessApiError, INVALID_EVENT, INVALID_INPUT, storeUnavailable } from '../../base/errors.ts'
import type { Creation, CreationOutcome, KeyReservation } from '../../writes/creation.ts'
import type { BuildStatement, RecordDatabase, TextRow } from '../connection/database.ts'
import { brokenRule, isKeyHeld, tooLargeEvent } from '../connection/driver-faults.ts'
import { createSingleFlight, type SingleFlight } from '../connection/single-flight.ts'
import { type KeyHolder, LATE_MS } from './key-reservation.ts'

/** Tries to reserve a key: an entry that refused a try can expire before the entry is read. */
const RESERVE_ATTEMPTS = 3

const creationsUnderWay = new WeakMap<RecordDatabase, SingleFlight>()

function singleFlightOf(database: RecordDatabase): SingleFlight {
  const known = creationsUnderWay.get(database) ?? createSingleFlight()
  creationsUnderWay.set(database, known)
  return known
}

/** Reads the answers of a write's statement. */
export interface Reading<Done, Refusal> {
  /** Reads the answer of a statement that reserved its key and wrote the record. */
  done(row: TextRow): Done
  /** Reads the answer of a statement that wrote nothing although the key is free; `undefined` sends the statement again. */
  refused?(row: TextRow): Refusal | undefined
  /** Builds the text of a replay from `entry`. Default: the stored reply. */
  reply?(sql: Sql): Fragment
}

/** The outcome of a write with an idempotency key that another write holds or has used. */
export type KeyVerdict =
  | { readonly outcome: 'replayed'; readonly reply: string }
  | { readonly outcome: 'mismatch' | 'in_progress' }

/** Sends the statement of a simple creation and returns the outcome: see {@link write}. */
export function writeCreation<Refusal = never>(
  database: RecordDatabase,
  creation: Creation<unknown>,
  build: BuildStatement,
  refused: (row: TextRow) => Refusal | undefined = () => undefined,
): Promise<CreationOutcome | Refusal> {
  return write(database, creation, build, { done: () => ({ outcome: 'created' as const }), refused })
}

/**
 * Sends a statement that reserves an idempotency key, and returns the outcome. Almost always one round trip; a second
 * round trip reads the reply when another write has used the key.
 *
 * @param build builds a statement that answers {@link outcomeColumns} first, and is safe to repeat
 */
export async function write<Done, Refusal>(
  database: RecordDatabase,
  keyHolder: KeyHolder,
  build: BuildStatement,
  reading: Reading<Done, Refusal>,
): Promise<Done | Refusal | KeyVerdict> {
  const { organizationId, idempotency } = keyHolder
  const calledAt = performance.now()
  const work = (): Promise<Done | Refusal | KeyVerdict | null> => {
    const left = leftOf(keyHolder.atMostMs, calledAt)
    return send(database, { ...keyHolder, atMostMs: left }, build, reading)
  }
  // A transaction of the host has one connection, on which statements run one after the other: no single flight is needed.
  if (!idempotency || idempotency.waitMs === null) return (await work()) ?? { outcome: 'in_progress' }
  const name = `${organizationId} ${idempotency.operation} ${idempotency.key}`
  const outcome = await singleFlightOf(database).run(name, idempotency.waitMs, work)
  return outcome ?? { outcome: 'in_progress' }
}

/** Sends the statement. Returns null when another write held the key for the whole of the allowed wait. */
async function send<Done, Refusal>(
  database: RecordDatabase,
  { organizationId, idempotency, atMostMs }: KeyHolder,
  build: BuildStatement,
  { done, refused, reply }: Reading<Done, Refusal>,
): Promise<Done | Refusal | KeyVerdict | null> {
  const begunAt = performance.now()
  for (let attempt = 0; attempt < RESERVE_ATTEMPTS; attempt++) {
    const wait = { lockMs: idempotency?.waitMs ?? 0, atMostMs: leftOf(atMostMs, begunAt) }
    const row = await database.rowFor(organizationId, build, wait).catch((error) => {
      // Without `waitMs` the host's own lock_timeout ended the wait, and the host's transaction has failed.
      if (typeof idempotency?.waitMs === 'number' && isKeyHeld(error.cause)) return null
      throw meaningOf(error)
    })
    if (row === null) return null
    const [hasGoneOn, due] = row
    if (hasGoneOn === '1') {
      if (due !== '0') database.wakeUp.signal()
      return done(row)
    }
    const outcome =
      (idempotency && (await readEntry(database, organizationId, idempotency, reply))) ?? refused?.(row)
    if (outcome) return outcome
    if (!idempotency || performance.now() - begunAt >= LATE_MS) {
      throw storeUnavailable('Cannot write the record because its statement began too late')
    }
  }
  return null
}

/** Computes the milliseconds that are left of `atMostMs`. */
function leftOf(atMostMs: number | undefined, begunAt: number): number | undefined {
  return atMostMs === undefined ? undefined : Math.max(1, atMostMs - (performance.now() - begunAt))
}

/** Returns the library's error for a write that breaks a rule of the tables; returns any other error unchanged. */
export function meaningOf(error: unknown): unknown {
  const tooLarge = tooLargeEvent(error)
  if (tooLarge !== undefined) return new BusinessApiError(INVALID_EVENT, tooLarge, { cause: error })
  const rule = brokenRule(error)
  return rule === undefined
    ? error
    : new BusinessApiError(INVALID_INPUT, `Cannot write the record because it breaks ${rule}`, {
        cause: error,
      })
}

async function readEntry(
  database: RecordDatabase,
  organizationId: string,
  { operation, key, fingerprint }: Omit<KeyReservation, 'reply'>,
  replyOf: (sql: Sql) => Fragment = (sql) => sql`entry.reply`,
): Promise<KeyVerdict | undefined> {
  const [matches, reply] = await database.rowFor(
    organizationId,
    (sql, answerTag) => sql`
      select (entry.fingerprint = ${fingerprint}::text)::text, ${replyOf(sql)}, ${answerTag}
      from (values (1)) as always
      left join business_api.idempotency_keys entry
        on entry.organization_id = ${organizationId}::text and entry.operation = ${operation}::text
        and entry.key = ${key}::text and entry.expires_at > now()`,
  )
  if (reply === null || reply === undefined) return undefined
  return matches === 'true' ? { outcome: 'replayed', reply } : { outcome: 'mismatch' }
}
