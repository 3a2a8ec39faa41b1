import { storeUnavailable } from '../../base/errors.ts'
import type { RecordDatabase, StatementWait } from '../connection/database.ts'
import { isKeyHeld } from '../connection/driver-faults.ts'
import { createSingleFlight, type SingleFlight } from '../connection/single-flight.ts'
import {
  type KeyHolder,
  type KeyValues,
  keyValuesOf,
  LATE_MS,
  type OutcomeColumn,
  type WriteStatements,
} from './key-reservation.ts'
import { ask, defineStatement, type FixedStatement, type ResultColumns, type Value } from './statement.ts'

/** Maximum number of attempts to reserve a key if the existing entry has just expired. */
const RESERVE_ATTEMPTS = 3

const creationsUnderWay = new WeakMap<RecordDatabase, SingleFlight>()

function singleFlightOf(database: RecordDatabase): SingleFlight {
  const known = creationsUnderWay.get(database) ?? createSingleFlight()
  creationsUnderWay.set(database, known)
  return known
}

/** How to interpret a statement's result. */
export interface Reading<Column extends string, Done, Refusal, Verdict = never> {
  /** Reads the result of a statement that was executed. */
  done(answer: ResultColumns<Column, never>): Done
  /** Called before the key is checked if the statement wasn't executed. Return `undefined` to check the key. */
  judged?(answer: ResultColumns<Column, never>): Verdict | undefined
  /** Called if the statement wasn't executed even though the key is free. Return `undefined` to try again. */
  refused?(answer: ResultColumns<Column, never>): Refusal | undefined
  /** Reads the key's entry. Only needed if replays don't return the reply exactly as written. */
  readonly entry?: EntryStatement
}

/** Sends a write's statement. */
export type AskForWrite<Values, Column extends string> = (
  organizationId: string,
  values: Values & { readonly [Name in keyof Values]: Value },
  wait: StatementWait,
) => Promise<ResultColumns<Column, never>>

/** How to send a write's statements, with and without an idempotency key. */
export interface WriteAsks<Values, Column extends string> {
  readonly keyed: AskForWrite<Values & KeyValues, Column>
  readonly keyless: AskForWrite<Values, Column>
}

/** Sends each of a write's statements separately. */
export function askEach<Values extends object, Column extends string>(
  database: RecordDatabase,
  { keyed, keyless }: WriteStatements<Values, Column>,
): WriteAsks<Values, Column | OutcomeColumn> {
  return {
    keyed: (organizationId, values, wait) => ask(database, organizationId, keyed, values, wait),
    keyless: (organizationId, values, wait) => ask(database, organizationId, keyless, values, wait),
  }
}

/** The reason why a statement with an idempotency key wasn't executed. */
export type KeyVerdict =
  | { readonly outcome: 'replayed'; readonly reply: string }
  | { readonly outcome: 'mismatch' | 'in_progress' }

/**
 * Sends a statement that reserves an idempotency key, and reads its outcome. This nearly always takes a single round
 * trip. If another creation or change has the key, a second one reads the reply.
 *
 * @param asks must send idempotent statements
 */
export async function write<Values extends object, Column extends string, Done, Refusal, Verdict = never>(
  database: RecordDatabase,
  keyHolder: KeyHolder,
  asks: WriteAsks<Values, Column | OutcomeColumn>,
  values: Values & Readonly<Record<keyof Values, Value>>,
  reading: Reading<Column, Done, Refusal, Verdict>,
): Promise<Done | Refusal | Verdict | KeyVerdict> {
  const { organizationId, idempotency } = keyHolder
  const calledAt = performance.now()
  const work = (): Promise<Done | Refusal | Verdict | KeyVerdict | null> => {
    const left = leftOf(keyHolder.atMostMs, calledAt)
    return send(database, { ...keyHolder, atMostMs: left }, asks, values, reading)
  }
  // A transaction uses a single connection, so there can't be another statement to wait for.
  if (!idempotency || idempotency.waitMs === null) return (await work()) ?? { outcome: 'in_progress' }
  const name = `${organizationId} ${idempotency.operation} ${idempotency.key}`
  const outcome = await singleFlightOf(database).run(name, idempotency.waitMs, work)
  return outcome ?? { outcome: 'in_progress' }
}

/** Returns `null` if another creation or change held the key until the timeout. */
async function send<Values extends object, Column extends string, Done, Refusal, Verdict>(
  database: RecordDatabase,
  { organizationId, idempotency, atMostMs }: KeyHolder,
  { keyed, keyless }: WriteAsks<Values, Column | OutcomeColumn>,
  values: Values & Readonly<Record<keyof Values, Value>>,
  { done, judged, refused, entry = ENTRY }: Reading<Column, Done, Refusal, Verdict>,
): Promise<Done | Refusal | Verdict | KeyVerdict | null> {
  const begunAt = performance.now()
  for (let attempt = 0; attempt < RESERVE_ATTEMPTS; attempt++) {
    const wait = { lockMs: idempotency?.waitMs ?? 0, atMostMs: leftOf(atMostMs, begunAt) }
    const sent = idempotency
      ? keyed(organizationId, Object.assign({}, values, keyValuesOf(idempotency)), wait)
      : keyless(organizationId, values, wait)
    const answer = await sent.catch((error) => {
      // We didn't set a lock timeout, so this was the host's own and its transaction has failed.
      if (typeof idempotency?.waitMs === 'number' && isKeyHeld(error.cause)) return null
      throw error
    })
    if (answer === null) return null
    if (answer.hasGoneOn === '1') {
      if (answer.due !== '0') database.wakeUp.signal()
      return done(answer)
    }
    const outcome =
      judged?.(answer) ??
      (idempotency && (await readEntry(database, organizationId, idempotency, entry))) ??
      refused?.(answer)
    if (outcome) return outcome
    if (!idempotency || performance.now() - begunAt >= LATE_MS) {
      throw storeUnavailable('Cannot write the record because its statement began too late')
    }
  }
  return null
}

function leftOf(atMostMs: number | undefined, begunAt: number): number | undefined {
  return atMostMs === undefined ? undefined : Math.max(1, atMostMs - (performance.now() - begunAt))
}

/** Reads an idempotency key's entry, unless it has expired. */
export type EntryStatement = FixedStatement<
  Pick<KeyValues, 'idempotencyKey' | 'operation' | 'fingerprint'> & { readonly organizationId: string },
  'isSame' | 'reply'
>

/** Builds the statement that reads a key's entry unless it has expired. `reply` is SQL, based on the row `entry`. */
export function defineEntry(reply = 'entry.reply'): EntryStatement {
  return defineStatement({
    answer: { isSame: '(entry.fingerprint = @fingerprint::text)::text', reply },
    from: `
      from (values (1)) as always (one)
      left join business_api.idempotency_keys entry
        on entry.organization_id = @organizationId::text and entry.operation = @operation::text
        and entry.key = @idempotencyKey::text and entry.expires_at > pg_catalog.now()`,
  })
}

const ENTRY = defineEntry()

async function readEntry(
  database: RecordDatabase,
  organizationId: string,
  idempotency: NonNullable<KeyHolder['idempotency']>,
  entry: EntryStatement,
): Promise<KeyVerdict | undefined> {
  const { idempotencyKey, operation, fingerprint } = keyValuesOf(idempotency)
  const values = { organizationId, idempotencyKey, operation, fingerprint }
  const { isSame, reply } = await ask(database, organizationId, entry, values)
  if (reply === null) return undefined
  return isSame === 'true' ? { outcome: 'replayed', reply } : { outcome: 'mismatch' }
}
