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

// Every change is a single statement with these steps. The first one locks the record.
//
//   before       the current record, with `is_repeat` if an earlier attempt has already made this change
//   after        the new record; no row if the change isn't allowed, or the current record if this is a retry
//   represented  the new record's representation
//   reserved     reserves the idempotency key, with the representation as the reply
//   written      updates the record
//   published    writes the events, replacing their placeholders with values from the representation

/** Values bound by every change, in addition to the resource's own. */
export interface ChangeValues extends WriteValues {
  readonly recordId: string
  /** JSON array of the states that allow the change, or `null` for any state. */
  readonly from: string | null
}

/** A change's result columns, in addition to those of every write. */
export type ChangeColumn = 'representation' | 'state' | 'reason'

/** The steps and columns that differ between resources. */
export interface ChangeParts {
  readonly of: RecordTable
  /** The column with the record's state. */
  readonly state: string
  /** The steps from `before` to `after`, plus any that the representation needs. Defaults to {@link afterIfAllowed}. */
  readonly after?: readonly string[]
  /** SQL expression for the JSON string, using the row `from`. Defaults to the table's representation. */
  readonly representation?: string
  /** Defaults to `after`. */
  readonly from?: string
  /** Assignments for the update, using the row `after`. Defaults to all changeable columns. */
  readonly set?: string
  /** SQL condition that there's nothing to update. Defaults to whether the same change was applied before. */
  readonly isDone?: string
  /** Additional steps that write. */
  readonly alongside?: readonly string[]
  /** The events as `jsonb`, which may depend on `before` and `after`. Defaults to the change's events. */
  readonly events?: string
  /** `json` with more placeholder values, for those that aren't in the representation. */
  readonly facts?: string
  /** The reason why a change is rejected despite the record's state, or `null` if the state is the reason. */
  readonly reason?: string
}

/** Builds a change's statements. */
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

/** Makes an update visible to syncing clients. Every update of a record must include these assignments. */
export const CHANGED_NOW = 'changed_xid = default, updated_at = default'

/** Number of latest changes to remember per record, for detecting retries. */
const LATEST_CHANGES = 10

const WITH_THIS_CHANGE = `latest_changes = (array[@writeId::text] || before.latest_changes)[:${LATEST_CHANGES}]`

/** Builds the condition that the record's state allows the change. */
export function isAllowed(state: string): string {
  return `(
    @from::text is null or before.is_repeat
    or before.${state} = any (array(select pg_catalog.jsonb_array_elements_text(@from::text::jsonb)))
  )`
}

/** Builds the step `after` for a change that sets the given columns if the record's state allows it. */
export function afterIfAllowed(of: RecordTable, state: string): string {
  return `after as (select ${afterChange(columnsOf(of))} from before where ${isAllowed(state)})`
}

/**
 * Serializes `@set` as a JSON object of strings, because NaN isn't a valid JSON number but PostgreSQL can reject it.
 */
export function setOf(values: object): string {
  return JSON.stringify(values, (_, value) => (typeof value === 'number' ? String(value) : value))
}

/** Sends a change's statement and returns its outcome. */
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

/** Creates the method that sets a record's columns. */
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
  // The change was allowed, but too late.
  if (representation !== null) return undefined
  if (state === null) return { outcome: 'not_found' }
  return { outcome: 'refused', state, reason: (reason ?? 'state') as Reason }
}
