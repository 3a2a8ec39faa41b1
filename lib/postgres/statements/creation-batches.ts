import { withDeadline } from '../../base/time.ts'
import type { NamedColumn } from '../../resources/columns.ts'
import type { WaitLimits } from '../admission/batches.ts'
import type { RecordDatabase, StatementWait } from '../connection/database.ts'
import { insertInto } from './columns.ts'
import { GONE_ON, OUTCOME_COLUMNS, type Reserve } from './key-reservation.ts'
import { ask, defineStatement, type FixedStatement, type ResultColumns, type Value } from './statement.ts'
import type { AskForWrite } from './write.ts'

/** A statement that creates several records of one organization. */
export type CreationBatch = FixedStatement<BatchValues, 'outcomes' | 'due'>

interface BatchValues {
  readonly organizationId: string
  /** JSON array with each creation's named values. */
  readonly creations: string
  /** `null` in a transaction. */
  readonly lockTimeout: string | null
}

/** The parts of a creation's statement that depend on the record. */
interface CreationParts {
  readonly table: string
  readonly columns: readonly NamedColumn[]
  readonly reserve: Reserve
  readonly condition: string
  readonly answer: Readonly<Record<string, string>>
}

/**
 * Builds the statement that creates several records of one organization. It has the same parts as the statement for a
 * single record, but uses each record's values instead of parameters.
 *
 * @param statement the statement for a single creation
 */
export function defineCreationBatch(
  { parameters }: { readonly parameters: readonly string[] },
  { table, columns, reserve, condition, answer }: CreationParts,
): CreationBatch {
  const names = parameters.filter((name) => !SHARED.has(name))
  const ofEach = (sql: string): string =>
    sql.replaceAll(/@(\w+)::(\w+)/g, (parameter, name, type) =>
      SHARED.has(name) ? parameter : `creation."${name}"::${type}`,
    )
  const outcome = { ...answer, hasGoneOn: HAS_GONE_ON }
  const outcomes = Object.entries(outcome).map(([column, sql]) => `'${column}', ${ofEach(sql)}`)
  return defineStatement({
    steps: [
      `creation as materialized (
        select * from rows from (
          pg_catalog.json_to_recordset(@creations::text::json) as (${names.map((name) => `"${name}" text`).join(', ')})
        ) with ordinality as given (${names.map((name) => `"${name}"`).join(', ')}, place)
      )`,
      ofEach(reserve({ condition, from: 'from creation' })),
      ofEach(
        `record as (${insertInto(table, columns, 'creation join reserved on reserved.write_id = @writeId::text')})`,
      ),
      ofEach(`published as (
        select business_api.insert_events(
          @organizationId::text, pg_catalog.jsonb_agg(event.value order by creation.place, event.number)
        ) as due
        from (${FIRST_OF_EACH_RECORD}) as creation
        join record on record.id = @id::text
        cross join pg_catalog.jsonb_array_elements(@events::text::jsonb) with ordinality as event (value, number)
        having pg_catalog.count(*) > 0
      )`),
    ],
    answer: {
      outcomes: `(
        select pg_catalog.json_agg(pg_catalog.json_build_object(${outcomes.join(', ')}) order by creation.place) from creation
      )::text`,
      due: OUTCOME_COLUMNS.due,
    },
  })
}

/** Parameters shared by all creations. */
const SHARED: ReadonlySet<string> = new Set(['organizationId', 'lockTimeout'])

/** If a batch has the same creation more than once, its events are only published once. */
const FIRST_OF_EACH_RECORD =
  'select distinct on (given.id) given.* from creation as given order by given.id, given.place'

const HAS_GONE_ON = `case when ${GONE_ON} then '1' else '0' end`

/** Maximum number of running statements per organization. The next batch fills up while the previous batch commits. */
const UNDER_WAY_MAX = 2
/** Maximum number of creations per statement. */
const CREATIONS_MAX = 16
/** Maximum wait for an idempotency key's lock, and for separately sent creations before the next batch, in ms. */
const LOCK_MS = 100

/** A statement that creates one record, with a variant for several records. */
export interface CreationStatement<Values, Column extends string> extends FixedStatement<Values, Column> {
  readonly batch: CreationBatch
}

interface Waiting<Values, Column extends string> {
  readonly values: Values & { readonly [Name in keyof Values]: Value }
  readonly wait: StatementWait
  /** Monotonic timestamp, in milliseconds. */
  readonly askedAt: number
  resolve(answer: ResultColumns<Column, never> | Promise<ResultColumns<Column, never>>): void
  reject(error: unknown): void
}

interface Queue<Values, Column extends string> {
  readonly waiting: Waiting<Values, Column>[]
  underWay: number
}

/**
 * Creates batches for a creation. Each organization can have two running statements, and creations that arrive in the
 * meantime share the next statement. An organization that creates many records needs just one transaction for up to 16
 * records, and never waits for another organization's lock. If a batch fails, its creations are sent separately, which
 * is safe because creations are idempotent.
 */
export function createCreationBatches<Values extends object, Column extends string>(
  database: RecordDatabase,
  statement: CreationStatement<Values, Column>,
  limits: WaitLimits,
): AskForWrite<Values, Column> {
  const queues = new Map<string, Queue<Values, Column>>()
  let pending = 0
  limits.countWaiting(() => pending)

  function queueOf(organizationId: string): Queue<Values, Column> {
    const known = queues.get(organizationId)
    if (known) return known
    const queue: Queue<Values, Column> = { waiting: [], underWay: 0 }
    queues.set(organizationId, queue)
    return queue
  }

  function start(organizationId: string, queue: Queue<Values, Column>): void {
    while (queue.underWay < UNDER_WAY_MAX && queue.waiting.length > 0) {
      const creations = queue.waiting.splice(0, CREATIONS_MAX)
      pending -= creations.length
      queue.underWay++
      void send(organizationId, creations).finally(() => {
        queue.underWay--
        start(organizationId, queue)
      })
    }
    if (queue.underWay === 0) queues.delete(organizationId)
  }

  /** Rejects a creation whose caller has stopped waiting, since it must not be written. */
  function isInTime({ wait, askedAt, reject }: Waiting<Values, Column>): boolean {
    // Timers may fire up to a millisecond early.
    const isInTime = leftOf(wait, askedAt) >= 1
    if (!isInTime) reject(limits.timedOut(Math.round(performance.now() - askedAt)))
    return isInTime
  }

  async function send(organizationId: string, creations: readonly Waiting<Values, Column>[]): Promise<void> {
    const inTime = creations.filter(isInTime)
    if (inTime.length > 1 && (await sendTogether(organizationId, inTime))) return
    const sent = inTime.filter(isInTime).map(({ values, wait, askedAt, resolve }) => {
      const alone = { ...wait, atMostMs: leftOf(wait, askedAt) }
      const answer = ask(database, organizationId, statement, values, alone)
      resolve(answer)
      return answer
    })
    // Limits how long a creation that waits for a lock can delay the others.
    await withDeadline(Promise.allSettled(sent), LOCK_MS, () => {})
  }

  /** Returns `false` if the statement failed. The creation at fault gets the error when it's sent separately. */
  async function sendTogether(
    organizationId: string,
    creations: readonly Waiting<Values, Column>[],
  ): Promise<boolean> {
    const values = {
      organizationId,
      creations: JSON.stringify(creations.map(({ values }) => values)),
      lockTimeout: String(LOCK_MS),
    }
    const atMostMs = Math.min(...creations.map(({ wait, askedAt }) => leftOf(wait, askedAt)))
    const wait = { lockMs: LOCK_MS, atMostMs }
    const answer = await ask(database, organizationId, statement.batch, values, wait).catch(() => null)
    if (answer === null) return false
    const outcomes = JSON.parse(answer.outcomes ?? '[]') as ResultColumns<Column, never>[]
    creations.forEach(({ resolve }, place) => {
      resolve({ ...outcomes[place], due: answer.due } as ResultColumns<Column, never>)
    })
    return true
  }

  return (organizationId, values, wait) =>
    new Promise((resolve, reject) => {
      const queue = queueOf(organizationId)
      // An organization using less than its fair share of the queue is never rejected because of others.
      if (queue.waiting.length * queues.size >= pending) limits.rejectBeyond(pending)
      pending++
      queue.waiting.push({ values, wait, askedAt: performance.now(), resolve, reject })
      // Wait for more creations in the same turn of the event loop.
      if (queue.waiting.length === 1) setImmediate(start, organizationId, queue)
    })
}

function leftOf({ atMostMs = Number.POSITIVE_INFINITY }: StatementWait, askedAt: number): number {
  return atMostMs - (performance.now() - askedAt)
}
