import type { Fragment, ISql as Sql } from 'postgres'
import type { Change, ChangeOutcome } from '../../writes/change.ts'
import type { BuildStatement, RecordDatabase, TextRow } from '../connection/database.ts'
import { textArray } from './fragments.ts'
import { jsonOf, published, reserved } from './key-reservation.ts'
import { write } from './write.ts'

// Every change is one statement of these steps, and the record is locked from the first step on:
//
//   before       the record before the change, with `is_repeat`: an earlier try has already written this change
//   after        the record after the change; no row if the record does not allow the change; for a repeat, the present record
//   represented  the representation of `after`
//   reserved     the idempotency key, with the representation as the reply
//   written      the update
//   published    the events, with placeholders rendered from the representation

/**
 * Sends the statement of a change and returns the outcome.
 *
 * @param build answers {@link changeColumns}
 */
export function writeChange<Representation, Reason extends string = never>(
  database: RecordDatabase,
  given: Change<unknown>,
  build: BuildStatement,
): Promise<ChangeOutcome<Representation, Reason>> {
  return write(database, given, build, {
    done: ([, , text]) => ({
      outcome: 'changed' as const,
      representation: JSON.parse(text ?? 'null') as Representation,
    }),
    refused: (row) => refusalOf<Reason>(row),
  })
}

type Refused<Reason extends string> = Exclude<
  ChangeOutcome<never, Reason>,
  { readonly outcome: 'changed' | 'replayed' | 'mismatch' | 'in_progress' }
>

function refusalOf<Reason extends string>([, , representation, state, reason]: TextRow):
  | Refused<Reason>
  | undefined {
  // The record allowed the change, but the statement began too late.
  if (representation !== null) return undefined
  if (state === null || state === undefined) return { outcome: 'not_found' }
  return { outcome: 'refused', state, reason: (reason ?? 'state') as Reason }
}

/** Builds the step `before`: the record, locked until the transaction ends. */
export function before(sql: Sql, { id, organizationId, recordId }: Change<unknown>, table: string): Fragment {
  return sql`
    before as (
      select *, ${id}::text = any (latest_changes) as is_repeat from ${sql.unsafe(table)}
      where organization_id = ${organizationId}::text and id = ${recordId}::text
      for update
    )`
}

/** Builds the condition that the record's state allows the change. */
export function isAllowed(sql: Sql, given: Change<unknown>, state: string): Fragment {
  if (given.from === null) return sql`true`
  return sql`(before.is_repeat or before.${sql.unsafe(state)} = any (${textArray(sql, given.from)}))`
}

/** Builds a column of `after`: the given value, or the value before the change; for a repeat always the present value. */
export function orBefore(
  sql: Sql,
  value: string | number | null | undefined,
  column: string,
  type: 'text' | 'integer' | 'numeric(15, 3)' | 'timestamptz' = 'text',
): Fragment {
  const name = sql.unsafe(column)
  if (value === undefined) return sql`before.${name}`
  const text = value === null ? null : String(value)
  return sql`case when before.is_repeat then before.${name} else ${text}::text::${sql.unsafe(type)} end as ${name}`
}

/** Ids of changes that a record remembers: a repeat is recognized if fewer other changes came in between. */
const LATEST_CHANGES = 10

/** Builds the assignment with which every update adds the change's id to the ids that the record remembers. */
export function withThisChange(sql: Sql, { id }: Change<unknown>): Fragment {
  // trim_array instead of an array slice: a distributed PostgreSQL refuses slices in SET.
  return sql`
    latest_changes = array[${id}::text] || pg_catalog.trim_array(
      before.latest_changes, greatest(0, pg_catalog.cardinality(before.latest_changes) - ${LATEST_CHANGES - 1}::int)
    )`
}

/** Builds the step `represented`. @param representation an SQL expression for the JSON text of a row of `steps` */
export function represented(sql: Sql, representation: string, steps = 'after'): Fragment {
  return sql`represented as (select ${sql.unsafe(representation)} as representation from ${sql.unsafe(steps)})`
}

/** Builds the step `reserved`. */
export function reservedFor(sql: Sql, given: Change<unknown>): Fragment {
  return reserved(
    sql,
    given,
    given.id,
    sql`exists (select 1 from represented)`,
    sql`(select representation from represented)`,
  )
}

/**
 * Builds the step `published`.
 *
 * @param chosen the events as jsonb; may use `before` and `after`. Default: the events of the change
 * @param facts further values for the placeholders, as json. Default: only the values of the representation
 */
export function publishedOf(
  sql: Sql,
  { organizationId, events }: Change<unknown>,
  {
    chosen = jsonOf(sql, events),
    facts = sql`'{}'::json`,
  }: { readonly chosen?: Fragment; readonly facts?: Fragment } = {},
): Fragment {
  const filled = sql`business_api.render_events(${chosen}, represented.representation::json, ${facts})`
  return published(
    sql,
    organizationId,
    filled,
    sql`reserved, represented, before, after where not before.is_repeat`,
  )
}

/**
 * Builds the columns of a change's answer.
 *
 * @param reason why a change is refused although the record's state allows the change; null if the state is the reason
 */
export function changeColumns(sql: Sql, state: string, reason: Fragment = sql`null`): Fragment {
  return sql`
    (select count(*) from reserved)::text, (select coalesce(sum(due), 0) from published)::text,
    (select representation from represented), (select before.${sql.unsafe(state)} from before), ${reason}`
}
