import type { Fragment, ISql as Sql } from 'postgres'
import type { Creation, KeyReservation } from '../../writes/creation.ts'

// The steps that the statements of all writes have in common.

/** The creation or change that reserves an idempotency key. */
export interface KeyHolder {
  readonly organizationId: string
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
  /** See {@link Creation.atMostMs}. */
  readonly atMostMs?: number | undefined
}

/** The steps that every simple create statement begins with: {@link reserved} and {@link published}. */
export function begin(
  sql: Sql,
  creation: Creation<unknown>,
  recordId: string,
  source: Fragment = sql`true`,
): Fragment {
  const { organizationId, idempotency, events } = creation
  return sql`
    ${reserved(sql, creation, recordId, source, sql`${idempotency?.reply ?? null}::text`)},
    ${published(sql, organizationId, jsonOf(sql, events))}`
}

/**
 * The step `reserved`: one row if this statement may go on, none if another one holds its idempotency key. An expired entry
 * is taken over; an entry of this very record is an earlier attempt whose answer was lost. The primary key makes a second
 * keyHolder wait until the first has ended.
 *
 * @param source a condition that must hold for the key to be reserved at all
 * @param reply what a replay answers
 */
export function reserved(
  sql: Sql,
  { organizationId, idempotency }: KeyHolder,
  recordId: string,
  source: Fragment,
  reply: Fragment,
): Fragment {
  const reservation = idempotency
    ? reserveKey(sql, organizationId, idempotency, recordId, source, reply)
    : sql`select 1 where ${source} and ${isInTime(sql)}`
  return sql`reserved as (${reservation})`
}

/** The step `published`: how many deliveries of the events are due. */
export function published(
  sql: Sql,
  organizationId: string,
  events: Fragment,
  source: Fragment = sql`reserved`,
): Fragment {
  return sql`
    published as (select business_api.insert_events(${organizationId}::text, ${events}) as due from ${source})`
}

/** Any value as `jsonb`. */
export function jsonOf(sql: Sql, value: unknown): Fragment {
  return sql`${JSON.stringify(value)}::text::jsonb`
}

/** The first two columns of every such statement's answer: whether it went on, and how many deliveries are due. */
export function outcomeColumns(sql: Sql): Fragment {
  return sql`(select count(*) from reserved)::text, (select coalesce(sum(due), 0) from published)::text`
}

/** After so long a create is not begun any more. */
export const LATE_MS = 4000

/**
 * False for a statement that began to run only long after PostgreSQL had received it, as a table was locked: its caller
 * has had a 503 by then, and a create that nobody waits for must not be written.
 */
function isInTime(sql: Sql): Fragment {
  return sql`clock_timestamp() < statement_timestamp() + ${LATE_MS}::float8 * interval '1 millisecond'`
}

function reserveKey(
  sql: Sql,
  organizationId: string,
  { operation, key, fingerprint, windowMs, waitMs }: Omit<KeyReservation, 'reply'>,
  recordId: string,
  source: Fragment,
  reply: Fragment,
): Fragment {
  // In a transaction of the host's the setting would outlive the statement.
  const limitsWait =
    waitMs === null
      ? sql`true`
      : sql`set_config('lock_timeout', ${String(Math.ceil(waitMs))}::text, true) is not null`
  return sql`
    insert into business_api.idempotency_keys as entry
      (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
    select
      ${organizationId}::text, ${operation}::text, ${key}::text, ${fingerprint}::text, ${recordId}::text,
      ${reply}, now() + ${windowMs}::float8 * interval '1 millisecond'
    where ${source} and ${isInTime(sql)} and ${limitsWait}
    on conflict (organization_id, operation, key) do update set
      fingerprint = excluded.fingerprint, record_id = excluded.record_id,
      reply = case when entry.expires_at <= now() then excluded.reply else entry.reply end,
      expires_at = case when entry.expires_at <= now() then excluded.expires_at else entry.expires_at end
    where entry.expires_at <= now() or entry.record_id = excluded.record_id
    returning 1`
}
