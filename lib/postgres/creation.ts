import type { Fragment, Sql } from 'postgres'
import type { Creation, CreationOutcome, IdempotencyClaim } from '../creation.ts'
import { ALREADY_EXISTS, BusinessApiError } from '../errors.ts'
import type { Database, Statement, TextRow } from './database.ts'
import { isLockTimeout, isNumberTaken } from './sql-states.ts'

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
    : sql`select 1 where ${source}`
  return sql`
    claim as (${claimed}),
    published as (
      select business_api.record_events(${organizationId}::text, ${JSON.stringify(events)}::text::jsonb) from claim
    )`
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
    where ${source} and set_config('lock_timeout', ${String(Math.ceil(waitMs))}::text, true) is not null
    on conflict (organization_id, operation, key) do update set
      fingerprint = excluded.fingerprint, record_id = excluded.record_id,
      reply = excluded.reply,
      expires_at = case when entry.expires_at <= now() then excluded.expires_at else entry.expires_at end
    where entry.expires_at <= now() or entry.record_id = excluded.record_id
    returning 1`
}

/** How often a claim may be tried anew when the entry that stood in its way has expired meanwhile. */
const CLAIM_ATTEMPTS = 3

/**
 * Sends a create statement and tells what became of it. Almost always one round trip; a second one reads the reply when
 * another creation holds the key.
 *
 * @param statement answers in its first column whether the creation went on ('1') or not ('0'), and is safe to repeat
 * @param refused judges a statement that did not go on though its key is free; `undefined` tries again
 */
export async function create<Refusal = never>(
  database: Database,
  creation: Creation<unknown>,
  statement: (sql: Sql) => Statement,
  refused: (row: TextRow) => Refusal | undefined = () => undefined,
): Promise<CreationOutcome | Refusal> {
  const { organizationId, idempotency } = creation
  for (let attempt = 0; attempt < CLAIM_ATTEMPTS; attempt++) {
    const row = await database.row(statement, idempotency?.waitMs).catch((error) => {
      if (idempotency && isLockTimeout(error.cause)) return null
      if (isNumberTaken(error)) {
        throw new BusinessApiError(ALREADY_EXISTS, 'Cannot create the record as its number is taken', {
          cause: error,
        })
      }
      throw error
    })
    if (row === null) return { outcome: 'in_progress' }
    if (row[0] === '1') return { outcome: 'created' }
    const outcome = (idempotency && (await readEntry(database, organizationId, idempotency))) ?? refused(row)
    if (outcome) return outcome
  }
  return { outcome: 'in_progress' }
}

async function readEntry(
  database: Database,
  organizationId: string,
  { operation, key, fingerprint }: IdempotencyClaim,
): Promise<CreationOutcome | undefined> {
  const [matches, reply] = await database.row(
    (sql) => sql`
      select (entry.fingerprint = ${fingerprint}::text)::text, entry.reply
      from (values (1)) as always
      left join business_api.idempotency_keys entry
        on entry.organization_id = ${organizationId}::text and entry.operation = ${operation}::text
        and entry.key = ${key}::text and entry.expires_at > now()`,
  )
  if (reply === null || reply === undefined) return undefined
  return matches === 'true' ? { outcome: 'replayed', reply } : { outcome: 'mismatch' }
}
