import type { Fragment, ISql as Sql } from 'postgres'
import type { Creation, KeyReservation } from '../../writes/creation.ts'

// The steps that the statements of all writes share.

/** The creation or change that reserves an idempotency key. */
export interface KeyHolder {
  readonly organizationId: string
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
  /** See {@link Creation.atMostMs}. */
  readonly atMostMs?: number | undefined
}

/** Builds the first steps of every simple create statement: {@link reserved} and {@link published}. */
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
 * Builds the step `reserved`: one row if this statement may go on, no row if another statement holds the idempotency key.
 * An expired entry is taken over. An entry of the same record comes from an earlier try of this statement, with an answer that
 * was lost. The primary key makes a second statement with the key wait until the first has ended.
 *
 * @param source a condition without which the key is not reserved
 * @param reply the text of a replay
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

/** Builds the step `published`, which inserts the events and returns the number of due deliveries. */
export function published(
  sql: Sql,
  organizationId: string,
  events: Fragment,
  source: Fragment = sql`reserved`,
): Fragment {
  return sql`
    published as (select business_api.insert_events(${organizationId}::text, ${events}) as due from ${source})`
}

/** Builds a `jsonb` of any value. */
export function jsonOf(sql: Sql, value: unknown): Fragment {
  return sql`${JSON.stringify(value)}::text::jsonb`
}

/** Builds the first two columns of every write's answer: `1` if the key was reserved, else `0`; the number of due deliveries. */
export function outcomeColumns(sql: Sql): Fragment {
  return sql`(select count(*) from reserved)::text, (select coalesce(sum(due), 0) from published)::text`
}

/** Milliseconds after which a write is no longer begun. */
export const LATE_MS = 4000

/**
 * Builds the condition that a statement runs soon after PostgreSQL received the statement. A locked table can delay a
 * statement: by then the caller has received 503, and the record must not be written.
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
  // Null in a transaction of the host, where the setting would outlive the statement.
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
