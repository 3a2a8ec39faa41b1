import type { Fragment, ISql as Sql } from 'postgres'
import type { Change, ChangeOutcome } from '../../writes/change.ts'
import type { BuildStatement, RecordDatabase, TextRow } from '../connection/database.ts'
import { textArray } from './fragments.ts'
import { jsonOf, published, reserved } from './key-reservation.ts'
import { write } from './write.ts'

// Every change is one statement of these steps, and the record is locked from the first one on:
//
//   before       the record as it is, and whether an earlier attempt of this very change has been there: `is_repeat`
//   after        as it will be; no row if it does not allow the change; of a repeat, as it is
//   represented  its representation
//   reserved     the idempotency key, with the representation as the reply
//   written      the update
//   published    the events, their placeholders filled in from the representation

/**
 * Sends the statement of a change and tells what became of it.
 *
 * @param build answers {@link changeColumns}
 */
export function change<Representation, Reason extends string = never>(
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
  // It was allowed, and only came too late.
  if (representation !== null) return undefined
  if (state === null || state === undefined) return { outcome: 'not_found' }
  return { outcome: 'refused', state, reason: (reason ?? 'state') as Reason }
}

/** The step `before`: the record, locked until the transaction ends. */
export function before(sql: Sql, { id, organizationId, recordId }: Change<unknown>, table: string): Fragment {
  return sql`
    before as (
      select *, ${id}::text = any (latest_changes) as is_repeat from ${sql.unsafe(table)}
      where organization_id = ${organizationId}::text and id = ${recordId}::text
      for update
    )`
}

/** Whether the record's state allows the change. */
export function isAllowed(sql: Sql, given: Change<unknown>, state: string): Fragment {
  if (given.from === null) return sql`true`
  return sql`(before.is_repeat or before.${sql.unsafe(state)} = any (${textArray(sql, given.from)}))`
}

/** A column after the change: what is given, else as it was; of a repeat always as it is. */
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

/** So many changes of one record may come between an attempt and the next one of the same change. */
const LATEST_CHANGES = 10

/** What every update sets: that this change has been there. */
export function withThisChange(sql: Sql, { id }: Change<unknown>): Fragment {
  // Not an array slice: in SET, a distributed PostgreSQL refuses it.
  return sql`
    latest_changes = array[${id}::text] || pg_catalog.trim_array(
      before.latest_changes, greatest(0, pg_catalog.cardinality(before.latest_changes) - ${LATEST_CHANGES - 1}::int)
    )`
}

/** The step `represented`. @param representation JSON text, made of the row of `steps` */
export function represented(sql: Sql, representation: string, steps = 'after'): Fragment {
  return sql`represented as (select ${sql.unsafe(representation)} as representation from ${sql.unsafe(steps)})`
}

/** The step `reserved`. */
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
 * The step `published`.
 *
 * @param events as jsonb; may use `before` and `after`. Default those of the change
 * @param facts as json: what else the placeholders are filled with
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

/** The columns of a change's answer. @param reason why a record whose state allows the change is refused; null: it is the state */
export function changeColumns(sql: Sql, state: string, reason: Fragment = sql`null`): Fragment {
  return sql`
    (select count(*) from reserved)::text, (select coalesce(sum(due), 0) from published)::text,
    (select representation from represented), (select before.${sql.unsafe(state)} from before), ${reason}`
}
