import { columnsOf, idOf, type RecordTable } from '../../resources/columns.ts'
import type { Change, ChangeOutcome } from '../../writes/change.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { afterChange, assign, represent } from './columns.ts'
import {
  defineWrite,
  eventsOf,
  published,
  type Reserve,
  type WriteStatements,
  type WriteValues,
} from './key-reservation.ts'
import type { ResultColumns, Value } from './statement.ts'
import { askEach, write } from './write.ts'

// Every change is one statement of these steps, and the record is locked from the first one on:
//
//   before       the record as it is, and whether an earlier attempt of this very change has been there: `is_repeat`
//   after        as it will be; no row if it does not allow the change; of a repeat, as it is
//   represented  its representation
//   reserved     the idempotency key, with the representation as the reply
//   written      the update
//   published    the events, their placeholders filled in from the representation

/** The values of every change, besides its resource's. */
export interface ChangeValues extends WriteValues {
  readonly recordId: string
  /** The states that allow the change, as JSON; null: any. */
  readonly from: string | null
}

/** The columns of a change's result, after those of every write. */
export type ChangeColumn = 'representation' | 'state' | 'reason'

/** The steps and columns by which the changes of resources differ. */
export interface ChangeParts {
  readonly of: RecordTable
  /** The column with the state of the record. */
  readonly state: string
  /** The steps from `before` to `after`, and those that the representation needs. Default {@link afterIfAllowed}. */
  readonly after?: readonly string[]
  /** JSON text, made from the row of {@link ChangeParts.from}. Default that of the table. */
  readonly representation?: string
  /** Default `after`. */
  readonly from?: string
  /** The assignments of the update, from the row `after`. Default those of the columns that a change may set. */
  readonly set?: string
  /** SQL condition: the row already has the target values. Default: this change was applied before. */
  readonly isDone?: string
  /** Further steps that write. Default none. */
  readonly alongside?: readonly string[]
  /** The events, as `jsonb`; may use `before` and `after`. Default those of the change. */
  readonly events?: string
  /** The values of placeholders besides the representation, as `json`. */
  readonly facts?: string
  /** Why a change is rejected although the record's state allows it; null: because of the state. */
  readonly reason?: string
}

/** Builds the statements of a change. */
export function defineChange<Values = unknown>({
  of,
  state,
  after = [afterIfAllowed(of, state)],
  representation = represent(of, 'after'),
  from = 'after',
  set = assign(columnsOf(of)),
  isDone = 'before.is_repeat',
  alongside = [],
  events = '@events::text::jsonb',
  facts = "'{}'::json",
  reason = 'null::text',
}: ChangeParts): WriteStatements<ChangeValues & Values, ChangeColumn> {
  const table = `business_api.${of.table}`
  const reservation = {
    condition: 'exists (select 1 from represented)',
    reply: '(select representation from represented)',
  }
  const filled = `business_api.render_events(${events}, represented.representation::json, ${facts})`
  return defineWrite((reserve: Reserve) => ({
    steps: [
      `before as (
        select *, @writeId::text = any (latest_changes) as is_repeat from ${table}
        where organization_id = @organizationId::text and ${idOf(of)} = @recordId::text
        for update
      )`,
      ...after,
      `represented as (select ${representation} as representation from ${from})`,
      reserve(reservation),
      `written as (
        update ${table} record
           set ${set}, ${CHANGED_NOW}, ${WITH_THIS_CHANGE}
          from before, after, reserved
         where record.organization_id = @organizationId::text and record.id = before.id and not ${isDone}
      )`,
      ...alongside,
      published('reserved, represented, before, after where not before.is_repeat', filled),
    ],
    answer: {
      representation: '(select representation from represented)',
      state: `(select before.${state} from before)`,
      reason,
    },
  }))
}

/** The assignments that show syncing clients a change: every update of a record makes them. */
export const CHANGED_NOW = 'changed_xid = default, updated_at = default'

/** Maximum number of changes of one record between two tries of the same change. */
const LATEST_CHANGES = 10

const WITH_THIS_CHANGE = `latest_changes = (array[@writeId::text] || before.latest_changes)[:${LATEST_CHANGES}]`

/** A condition: the record's state allows the change. */
export function isAllowed(state: string): string {
  return `(
    @from::text is null or before.is_repeat
    or before.${state} = any (array(select pg_catalog.jsonb_array_elements_text(@from::text::jsonb)))
  )`
}

/** The step `after` of a change that sets the columns of a table as given, if the record's state allows the change. */
export function afterIfAllowed(of: RecordTable, state: string): string {
  return `after as (select ${afterChange(columnsOf(of))} from before where ${isAllowed(state)})`
}

/** The values of `@set`, as JSON of strings. NaN is not a JSON number, but PostgreSQL has one and rejects it. */
export function setOf(values: object): string {
  return JSON.stringify(values, (_, value) => (typeof value === 'number' ? String(value) : value))
}

/** Sends the statement of a change and tells its outcome. */
export function writeChange<Values, Representation, Reason extends string = never>(
  database: RecordDatabase,
  given: Change<unknown>,
  statements: WriteStatements<ChangeValues & Values, ChangeColumn>,
  values: Values & Readonly<Record<keyof Values, Value>>,
): Promise<ChangeOutcome<Representation, Reason>> {
  const { organizationId, id, recordId, from, events } = given
  const common: ChangeValues = {
    organizationId,
    writeId: id,
    recordId,
    from: from && JSON.stringify(from),
    events: eventsOf(events),
  }
  type All = ChangeValues & Values
  return write(
    database,
    given,
    askEach(database, statements),
    { ...common, ...values } as All & Record<keyof All, Value>,
    {
      done: ({ representation }) => ({
        outcome: 'changed' as const,
        representation: JSON.parse(representation ?? 'null') as Representation,
      }),
      refused: (answer) => refusalOf<Reason>(answer),
    },
  )
}

/** Builds the verb that sets columns of a record as given. */
export function changeVerb<Changes extends object, Representation>(
  database: RecordDatabase,
  statements: WriteStatements<ChangeValues & { readonly set: string }, ChangeColumn>,
): (given: Change<Changes>) => Promise<ChangeOutcome<Representation>> {
  return (given) => writeChange(database, given, statements, { set: setOf(given.set) })
}

type Refused<Reason extends string> = Exclude<
  ChangeOutcome<never, Reason>,
  { readonly outcome: 'changed' | 'replayed' | 'mismatch' | 'in_progress' }
>

function refusalOf<Reason extends string>({
  representation,
  state,
  reason,
}: ResultColumns<ChangeColumn, never>): Refused<Reason> | undefined {
  // It was allowed, and only came too late.
  if (representation !== null) return undefined
  if (state === null) return { outcome: 'not_found' }
  return { outcome: 'refused', state, reason: (reason ?? 'state') as Reason }
}
