import { isIdOf } from '../../base/ids.ts'
import type { Creation, KeyReservation } from '../../writes/creation.ts'
import type { EventRecord } from '../../writes/event-envelope.ts'
import { defineStatement, type FixedStatement, type StatementParts } from './statement.ts'

// Steps used by all writes.

/** A creation or change that reserves an idempotency key. */
export interface KeyHolder {
  readonly organizationId: string
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
  /** See {@link Creation.atMostMs}. */
  readonly atMostMs?: number | undefined
}

/** An idempotency key's values. */
export interface KeyValues {
  readonly operation: string
  readonly idempotencyKey: string
  readonly fingerprint: string
  readonly windowMs: number
  /** `null` in a transaction. */
  readonly lockTimeout: string | null
}

/** Returns an idempotency key's values. */
export function keyValuesOf(idempotency: Omit<KeyReservation, 'reply'>): KeyValues {
  const { operation, key, fingerprint, windowMs, waitMs } = idempotency
  const lockTimeout = waitMs === null ? null : String(Math.ceil(waitMs))
  return { operation, idempotencyKey: key, fingerprint, windowMs, lockTimeout }
}

/** Values bound by every write, in addition to the record's own. */
export interface WriteValues {
  readonly organizationId: string
  /** An ID that lets a retry recognize its own idempotency key entry. */
  readonly writeId: string
  /** A JSON array. */
  readonly events: string
}

/** Values for a simple creation. */
export interface CreationValues extends WriteValues {
  /** The response for replays, or `null` without an idempotency key. */
  readonly reply: string | null
}

/**
 * Serializes the events written along with a record. Newly generated IDs are marked so that they aren't looked up,
 * which is safe because the record's statement can't write the event twice. IDs may have another format if the host
 * sets the `ids` option.
 */
export function eventsOf(events: readonly EventRecord[]): string {
  return JSON.stringify(
    events.map((event) => (isIdOf('evt', event.id) ? { ...event, hasNewId: true } : event)),
  )
}

/** Returns the values for a simple creation. */
export function creationValues(creation: Creation<unknown>, writeId: string): CreationValues {
  const { organizationId, events, idempotency } = creation
  return { organizationId, writeId, events: eventsOf(events), reply: idempotency?.reply ?? null }
}

/** Every write's result columns: whether it was executed, and the number of due deliveries. */
export type OutcomeColumn = 'hasGoneOn' | 'due'

/** A write's statement, with and without an idempotency key. */
export interface WriteStatements<Values, Column extends string> {
  readonly keyed: FixedStatement<Values & KeyValues, Column | OutcomeColumn>
  readonly keyless: FixedStatement<Values, Column | OutcomeColumn>
}

/** Builds the step `reserved`. See {@link defineWrite}. */
export type Reserve = (about?: {
  readonly condition?: string
  readonly reply?: string
  /** A `from` clause with one row per request. Defaults to a single request. */
  readonly from?: string
}) => string

/** The parts of a write's statement, except for its outcome. */
export type WriteParts<Column extends string = never> = StatementParts<Column, never>

/**
 * Builds a write's statements.
 *
 * @param parts called with a function that builds the step `reserved`, which has a row with the `write_id` if the write
 * may be executed, and no row if another creation or change has the idempotency key. Expired entries are taken over,
 * and an entry with the same write ID comes from an earlier attempt whose result was lost. If two writes use the same
 * key, the primary key makes the second one wait for the first. The key is only reserved if `condition` is true.
 * `reply` is the response for replays
 */
export function defineWrite<Values, Column extends string = never>(
  parts: (reserve: Reserve) => WriteParts<Column>,
): WriteStatements<Values, Column> {
  const withOutcome = (reserve: Reserve): WriteParts<Column | OutcomeColumn> => {
    const given = parts(reserve)
    return { ...given, answer: { ...OUTCOME_COLUMNS, ...given.answer } }
  }
  return {
    keyed: defineStatement(withOutcome(reserveKey)),
    keyless: defineStatement(withOutcome(goOn)),
  }
}

/** Condition that the write is executed. Must come after the step `reserved`. */
export const GONE_ON = 'exists (select 1 from reserved where reserved.write_id = @writeId::text)'

/** Builds a result column that is only evaluated if the write isn't executed. */
export function unlessGoneOn(condition: string): string {
  return `case when not ${GONE_ON} then ${condition}::text end`
}

/** Every write's result columns, based on the steps. */
export const OUTCOME_COLUMNS: Readonly<Record<OutcomeColumn, string>> = {
  hasGoneOn: '(select pg_catalog.count(*) from reserved)::text',
  due: '(select coalesce(pg_catalog.sum(due), 0) from published)::text',
}

/**
 * Builds the step `published`, which writes the events and counts the due deliveries.
 *
 * @param source the step that wrote the record. Without a row, an earlier attempt has written both record and events
 * @param events an expression of type `jsonb`
 */
export function published(source: string, events = '@events::text::jsonb'): string {
  return `published as (
    select business_api.insert_events(@organizationId::text, ${events}) as due from ${source}
  )`
}

/** Age in ms at which a write is no longer executed. */
export const LATE_MS = 4000

/**
 * False if the statement waited too long for a locked table. By then the caller has received a 503 and stopped waiting,
 * so we must not create a record.
 */
const IS_IN_TIME = `pg_catalog.clock_timestamp() < pg_catalog.statement_timestamp() + interval '${LATE_MS} milliseconds'`

/** Builds the step `reserved` without an idempotency key. */
export const goOn: Reserve = ({ condition = 'true', from = '' } = {}) =>
  `reserved as (select @writeId::text as write_id ${from} where ${condition} and ${IS_IN_TIME})`

// In the host's transaction, the setting would outlive the statement.
const LIMITS_WAIT = `(
  @lockTimeout::text is null or pg_catalog.set_config('lock_timeout', @lockTimeout::text, true) is not null
)`

const IS_EXPIRED = 'entry.expires_at <= pg_catalog.now()'

/** Builds the step `reserved` with an idempotency key. */
export const reserveKey: Reserve = ({
  condition = 'true',
  reply = '@reply::text',
  from = '',
} = {}) => `reserved as (
  insert into business_api.idempotency_keys as entry
    (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
  select
    @organizationId::text, @operation::text, @idempotencyKey::text, @fingerprint::text, @writeId::text, ${reply},
    pg_catalog.now() + @windowMs::float8 * interval '1 millisecond'
  ${from}
  where ${condition} and ${IS_IN_TIME} and ${LIMITS_WAIT}
  on conflict (organization_id, operation, key) do update set
    fingerprint = excluded.fingerprint, record_id = excluded.record_id,
    reply = case when ${IS_EXPIRED} then excluded.reply else entry.reply end,
    expires_at = case when ${IS_EXPIRED} then excluded.expires_at else entry.expires_at end
  where ${IS_EXPIRED} or entry.record_id = excluded.record_id
  returning entry.record_id as write_id
)`
