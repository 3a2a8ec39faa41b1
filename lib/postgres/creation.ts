import type { Fragment, Sql } from 'postgres'
import type { Creation, CreationOutcome, IdempotencyClaim } from '../creation.ts'
import { ALREADY_EXISTS, BusinessApiError, INVALID_INPUT, storeUnavailable } from '../errors.ts'
import type { BuildStatement, Database, TextRow } from './database.ts'
import { createFirstCome, type FirstCome } from './first-come.ts'
import { brokenRule, isKeyHeld, isNumberTaken } from './sql-states.ts'

/**
 * The first step of every create statement: one row if this creation may go on, none if another one holds its
 * idempotency key. An expired entry is taken over; an entry of this very record is an earlier attempt whose answer was
 * lost. The primary key makes a second claimant wait until the first has ended.
 *
 * @param source a condition that must hold for the key to be claimed at all
 */
export function claim(
  sql: Sql,
  { organizationId, idempotency, events }: Creation<unknown>,
  recordId: string,
  source: Fragment = sql`true`,
): Fragment {
  const claimed = idempotency
    ? claimKey(sql, organizationId, idempotency, recordId, source)
    : sql`select 1 where ${source} and ${isInTime(sql)}`
  return sql`
    claim as (${claimed}),
    published as (
      select business_api.record_events(${organizationId}::text, ${JSON.stringify(events)}::text::jsonb) as due from claim
    )`
}

/** The first two columns of every create statement's answer: whether it went on, and how many deliveries are due. */
export function outcomeColumns(sql: Sql): Fragment {
  return sql`(select count(*) from claim)::text, (select coalesce(sum(due), 0) from published)::text`
}

/** After so long a create is not begun any more. */
const LATE_MS = 4000

/**
 * False for a statement that began to run only long after PostgreSQL had received it, as a table was locked: its caller
 * has had a 503 by then, and a create that nobody waits for must not be written.
 */
function isInTime(sql: Sql): Fragment {
  return sql`clock_timestamp() < statement_timestamp() + ${LATE_MS}::float8 * interval '1 millisecond'`
}

function claimKey(
  sql: Sql,
  organizationId: string,
  { operation, key, fingerprint, reply, windowMs, waitMs }: IdempotencyClaim,
  recordId: string,
  source: Fragment,
): Fragment {
  return sql`
    insert into business_api.idempotency_keys as entry
      (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
    select
      ${organizationId}::text, ${operation}::text, ${key}::text, ${fingerprint}::text, ${recordId}::text,
      ${reply}::text, now() + ${windowMs}::float8 * interval '1 millisecond'
    where ${source} and ${isInTime(sql)} and set_config('lock_timeout', ${String(Math.ceil(waitMs))}::text, true) is not null
    on conflict (organization_id, operation, key) do update set
      fingerprint = excluded.fingerprint, record_id = excluded.record_id,
      reply = excluded.reply,
      expires_at = case when entry.expires_at <= now() then excluded.expires_at else entry.expires_at end
    where entry.expires_at <= now() or entry.record_id = excluded.record_id
    returning 1`
}

/** How often a claim may be tried anew when the entry that stood in its way has expired meanwhile. */
const CLAIM_ATTEMPTS = 3

const creationsUnderWay = new WeakMap<Database, FirstCome>()

function firstComeOf(database: Database): FirstCome {
  const known = creationsUnderWay.get(database) ?? createFirstCome()
  creationsUnderWay.set(database, known)
  return known
}

/**
 * Sends a create statement and tells what became of it. Almost always one round trip; a second one reads the reply when
 * another creation holds the key.
 *
 * @param build answers {@link outcomeColumns} in its first columns, and is safe to repeat
 * @param refused judges a statement that did not go on though its key is free; `undefined` tries again
 */
export async function create<Refusal = never>(
  database: Database,
  creation: Creation<unknown>,
  build: BuildStatement,
  refused: (row: TextRow) => Refusal | undefined = () => undefined,
): Promise<CreationOutcome | Refusal> {
  const { organizationId, idempotency } = creation
  const work = (): Promise<CreationOutcome | Refusal | null> => send(database, creation, build, refused)
  const name = `${organizationId} ${idempotency?.operation} ${idempotency?.key}`
  const outcome = idempotency ? await firstComeOf(database).run(name, idempotency.waitMs, work) : await work()
  return outcome ?? { outcome: 'in_progress' }
}

/** Null when another creation held the key for as long as this one could wait. */
async function send<Refusal>(
  database: Database,
  { organizationId, idempotency }: Creation<unknown>,
  build: BuildStatement,
  refused: (row: TextRow) => Refusal | undefined,
): Promise<CreationOutcome | Refusal | null> {
  const begunAt = performance.now()
  for (let attempt = 0; attempt < CLAIM_ATTEMPTS; attempt++) {
    const row = await database.row(build, idempotency?.waitMs).catch((error) => {
      if (idempotency && isKeyHeld(error.cause)) return null
      throw meaningOf(error)
    })
    if (row === null) return null
    const [hasGoneOn, due] = row
    if (hasGoneOn === '1') {
      if (due !== '0') database.due.announce()
      return { outcome: 'created' }
    }
    const outcome = (idempotency && (await readEntry(database, organizationId, idempotency))) ?? refused(row)
    if (outcome) return outcome
    if (!idempotency || performance.now() - begunAt >= LATE_MS) {
      throw storeUnavailable('Cannot create the record as its statement began too late')
    }
  }
  return null
}

function meaningOf(error: unknown): unknown {
  if (isNumberTaken(error)) {
    return new BusinessApiError(ALREADY_EXISTS, 'Cannot create the record as its number is taken', {
      cause: error,
    })
  }
  const rule = brokenRule(error)
  return rule === undefined
    ? error
    : new BusinessApiError(INVALID_INPUT, `Cannot create the record as it breaks ${rule}`, { cause: error })
}

async function readEntry(
  database: Database,
  organizationId: string,
  { operation, key, fingerprint }: IdempotencyClaim,
): Promise<CreationOutcome | undefined> {
  const [matches, reply] = await database.row(
    (sql, mark) => sql`
      select (entry.fingerprint = ${fingerprint}::text)::text, entry.reply, ${mark}
      from (values (1)) as always
      left join business_api.idempotency_keys entry
        on entry.organization_id = ${organizationId}::text and entry.operation = ${operation}::text
        and entry.key = ${key}::text and entry.expires_at > now()`,
  )
  if (reply === null || reply === undefined) return undefined
  return matches === 'true' ? { outcome: 'replayed', reply } : { outcome: 'mismatch' }
}
