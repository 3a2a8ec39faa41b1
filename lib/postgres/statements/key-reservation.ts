import { isIdOf } from '../../base/ids.ts'
import type { Creation, KeyReservation } from '../../writes/creation.ts'
import type { EventRecord } from '../../writes/event-envelope.ts'
import { defineStatement, type FixedStatement, type StatementParts } from './statement.ts'

// The steps that the statements of all writes have in common.

/** The creation or change that reserves an idempotency key. */
export interface KeyHolder {
  readonly organizationId: string
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
  /** See {@link Creation.atMostMs}. */
  readonly atMostMs?: number | undefined
}

/** The values of an idempotency key. */
export interface KeyValues {
  readonly operation: string
  readonly idempotencyKey: string
  readonly fingerprint: string
  readonly windowMs: number
  /** Null in a transaction. */
  readonly lockTimeout: string | null
}

/** Gives the values of an idempotency key. */
export function keyValuesOf(idempotency: Omit<KeyReservation, 'reply'>): KeyValues {
  const { operation, key, fingerprint, windowMs, waitMs } = idempotency
  const lockTimeout = waitMs === null ? null : String(Math.ceil(waitMs))
  return { operation, idempotencyKey: key, fingerprint, windowMs, lockTimeout }
}

/** The values that each statement of a write binds, besides the record's. */
export interface WriteValues {
  readonly organizationId: string
  /** The id by which a repeated attempt recognizes the entry of the idempotency key. */
  readonly writeId: string
  /** JSON. */
  readonly events: string
}

/** The values of a simple creation. */
export interface CreationValues extends WriteValues {
  /** A replay's response; null without an idempotency key. */
  readonly reply: string | null
}

/**
 * Gives the JSON of events that are written with a record. An id that was made for the event is marked, because the statement of the
 * record cannot write the event twice: such an id is not looked up. The host's option `ids` may make ids of another form.
 */
export function eventsOf(events: readonly EventRecord[]): string {
  return JSON.stringify(
    events.map((event) => (isIdOf('evt', event.id) ? { ...event, hasNewId: true } : event)),
  )
}

/** Gives the values of a simple creation. */
export function creationValues(creation: Creation<unknown>, writeId: string): CreationValues {
  const { organizationId, events, idempotency } = creation
  return { organizationId, writeId, events: eventsOf(events), reply: idempotency?.reply ?? null }
}

/** The columns of every write's result: whether the statement went on, and how many deliveries are due. */
export type OutcomeColumn = 'hasGoneOn' | 'due'

/** The statement of a write, with an idempotency key and without. */
export interface WriteStatements<Values, Column extends string> {
  readonly keyed: FixedStatement<Values & KeyValues, Column | OutcomeColumn>
  readonly keyless: FixedStatement<Values, Column | OutcomeColumn>
}

/** Gives the step `reserved`: see {@link defineWrite}. */
export type Reserve = (about?: {
  readonly condition?: string
  readonly reply?: string
  /** The step with a row for each request, from `from` on. Default one request. */
  readonly from?: string
}) => string

/** The parts of a write's statement besides its outcome. */
export type WriteParts<Column extends string = never> = StatementParts<Column, never>

/**
 * Builds the statements of a write.
 *
 * @param parts is given the step `reserved`: a row with the `write_id` if the statement may go on, no row if another creation or change holds
 *   the idempotency key. An expired entry is taken over; an entry of the same write is from an earlier try whose result was lost. The
 *   primary key makes a second holder of the key wait until the first has ended. The key is reserved only if `condition` holds; `reply`
 *   is a replay's response
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

/** A condition, after the step `reserved`: the write goes on. */
export const GONE_ON = 'exists (select 1 from reserved where reserved.write_id = @writeId::text)'

/** Builds a result column that is read only if the write has not gone on. */
export function unlessGoneOn(condition: string): string {
  return `case when not ${GONE_ON} then ${condition}::text end`
}

/** Reads the columns of every write's result from the steps. */
export const OUTCOME_COLUMNS: Readonly<Record<OutcomeColumn, string>> = {
  hasGoneOn: '(select pg_catalog.count(*) from reserved)::text',
  due: '(select coalesce(pg_catalog.sum(due), 0) from published)::text',
}

/**
 * The step `published`: writes the events, and counts the due deliveries.
 *
 * @param source the step that wrote the record. Without a row an earlier try of the statement wrote the record, and the events with
 *   the record
 * @param events as `jsonb`
 */
export function published(source: string, events = '@events::text::jsonb'): string {
  return `published as (
    select business_api.insert_events(@organizationId::text, ${events}) as due from ${source}
  )`
}

/** Age at which a write is no longer begun, in ms. */
export const LATE_MS = 4000

/**
 * False for a statement that began to run long after the arrival at PostgreSQL, because a table was locked. The caller has had a 503
 * by then, and a create that no caller waits for must not be written.
 */
const IS_IN_TIME = `pg_catalog.clock_timestamp() < pg_catalog.statement_timestamp() + interval '${LATE_MS} milliseconds'`

/** The step `reserved` without an idempotency key. */
export const goOn: Reserve = ({ condition = 'true', from = '' } = {}) =>
  `reserved as (select @writeId::text as write_id ${from} where ${condition} and ${IS_IN_TIME})`

// In a transaction of the host's the setting would outlive the statement.
const LIMITS_WAIT = `(
  @lockTimeout::text is null or pg_catalog.set_config('lock_timeout', @lockTimeout::text, true) is not null
)`

const IS_EXPIRED = 'entry.expires_at <= pg_catalog.now()'

/** The step `reserved` with an idempotency key. */
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
