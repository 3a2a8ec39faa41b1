import type { Fragment, ISql as Sql } from 'postgres'
import type { Creation, CreationOutcome, IdempotencyClaim } from '../creation.ts'
import { BusinessApiError, INVALID_INPUT, storeUnavailable } from '../errors.ts'
import { type Claimant, LATE_MS } from './claim.ts'
import type { BuildStatement, RecordDatabase, TextRow } from './database.ts'
import { createFirstCome, type FirstCome } from './first-come.ts'
import { brokenRule, isKeyHeld } from './sql-states.ts'

/** How often a claim may be tried anew when the entry that stood in its way has expired meanwhile. */
const CLAIM_ATTEMPTS = 3

const creationsUnderWay = new WeakMap<RecordDatabase, FirstCome>()

function firstComeOf(database: RecordDatabase): FirstCome {
  const known = creationsUnderWay.get(database) ?? createFirstCome()
  creationsUnderWay.set(database, known)
  return known
}

/** What a statement's answer means. */
export interface Reading<Done, Refusal> {
  /** Of a statement that went on. */
  done(row: TextRow): Done
  /** Judges one that did not go on though its key is free; `undefined` tries again. */
  refused?(row: TextRow): Refusal | undefined
  /** The reply of `entry`, if it is not as it was written. */
  reply?(sql: Sql): Fragment
}

/** What an idempotency key says to a statement that did not go on. */
export type KeyVerdict =
  | { readonly outcome: 'replayed'; readonly reply: string }
  | { readonly outcome: 'mismatch' | 'in_progress' }

/** Sends the statement of a simple creation and tells what became of it: see {@link write}. */
export function create<Refusal = never>(
  database: RecordDatabase,
  creation: Creation<unknown>,
  build: BuildStatement,
  refused: (row: TextRow) => Refusal | undefined = () => undefined,
): Promise<CreationOutcome | Refusal> {
  return write(database, creation, build, { done: () => ({ outcome: 'created' as const }), refused })
}

/**
 * Sends a statement that claims an idempotency key and tells what became of it. Almost always one round trip; a second
 * one reads the reply when another one holds the key.
 *
 * @param build answers {@link outcomeColumns} in its first columns, and is safe to repeat
 */
export async function write<Done, Refusal>(
  database: RecordDatabase,
  claimant: Claimant,
  build: BuildStatement,
  reading: Reading<Done, Refusal>,
): Promise<Done | Refusal | KeyVerdict> {
  const { organizationId, idempotency } = claimant
  const work = (): Promise<Done | Refusal | KeyVerdict | null> => send(database, claimant, build, reading)
  // In a transaction everything has one connection: there is nobody to wait for.
  if (!idempotency || idempotency.waitMs === null) return (await work()) ?? { outcome: 'in_progress' }
  const name = `${organizationId} ${idempotency.operation} ${idempotency.key}`
  const outcome = await firstComeOf(database).run(name, idempotency.waitMs, work)
  return outcome ?? { outcome: 'in_progress' }
}

/** Null when another one held the key for as long as this one could wait. */
async function send<Done, Refusal>(
  database: RecordDatabase,
  { organizationId, idempotency }: Claimant,
  build: BuildStatement,
  { done, refused, reply }: Reading<Done, Refusal>,
): Promise<Done | Refusal | KeyVerdict | null> {
  const begunAt = performance.now()
  for (let attempt = 0; attempt < CLAIM_ATTEMPTS; attempt++) {
    const row = await database.row(build, idempotency?.waitMs ?? 0).catch((error) => {
      // With no time to wait for, it was the host's own lock_timeout, and its transaction has failed.
      if (typeof idempotency?.waitMs === 'number' && isKeyHeld(error.cause)) return null
      throw meaningOf(error)
    })
    if (row === null) return null
    const [hasGoneOn, due] = row
    if (hasGoneOn === '1') {
      if (due !== '0') database.due.announce()
      return done(row)
    }
    const outcome =
      (idempotency && (await readEntry(database, organizationId, idempotency, reply))) ?? refused?.(row)
    if (outcome) return outcome
    if (!idempotency || performance.now() - begunAt >= LATE_MS) {
      throw storeUnavailable('Cannot write the record as its statement began too late')
    }
  }
  return null
}

function meaningOf(error: unknown): unknown {
  const rule = brokenRule(error)
  return rule === undefined
    ? error
    : new BusinessApiError(INVALID_INPUT, `Cannot write the record as it breaks ${rule}`, { cause: error })
}

async function readEntry(
  database: RecordDatabase,
  organizationId: string,
  { operation, key, fingerprint }: Omit<IdempotencyClaim, 'reply'>,
  replyOf: (sql: Sql) => Fragment = (sql) => sql`entry.reply`,
): Promise<KeyVerdict | undefined> {
  const [matches, reply] = await database.row(
    (sql, mark) => sql`
      select (entry.fingerprint = ${fingerprint}::text)::text, ${replyOf(sql)}, ${mark}
      from (values (1)) as always
      left join business_api.idempotency_keys entry
        on entry.organization_id = ${organizationId}::text and entry.operation = ${operation}::text
        and entry.key = ${key}::text and entry.expires_at > now()`,
  )
  if (reply === null || reply === undefined) return undefined
  return matches === 'true' ? { outcome: 'replayed', reply } : { outcome: 'mismatch' }
}
