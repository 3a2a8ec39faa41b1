import type { Fragment, ISql } from 'postgres'
import type { BuildStatement, ByteRow, RecordDatabase, StatementWait } from '../connection/database.ts'
import type { Share } from '../connection/turns.ts'
import { ifHere } from './here.ts'

/** A parameter value. */
export type Value = string | number | null

/** A constant statement that is built once. */
export interface FixedStatement<Values, Column extends string, Bytes extends Column = never> {
  /** The SQL. The answer tag is both the last parameter and the last column. */
  readonly text: string
  /** Names of the parameters before the tag, in order. */
  readonly parameters: readonly (keyof Values & string)[]
  /** Names of the columns before the tag, in order. */
  readonly columns: readonly Column[]
  /** Columns that {@link ask} returns as bytes instead of strings. */
  readonly bytes: readonly Bytes[]
}

/** The parts of a statement. Parameters are written as `@name` and can be used more than once. */
export interface StatementParts<Column extends string, Bytes extends Column> {
  /** The steps of the `with` clause. */
  readonly steps?: readonly string[]
  /** The only row's columns. Each one is an SQL expression of type text. */
  readonly answer: Readonly<Record<Column, string>>
  /** Columns that {@link ask} returns as bytes instead of strings. */
  readonly bytes?: readonly Bytes[]
  /** Everything after the columns, starting with `from`. */
  readonly from?: string
}

/**
 * A statement for any number of requests. Each parameter is an array with one element per request, written as a string
 * (see {@link arrayOf}). There's one row per request, and the column before the answer tag is the request's position,
 * starting at 1.
 */
export interface BatchStatement<Values, Column extends string, Bytes extends Column = never>
  extends FixedStatement<Values, Column, Bytes> {
  /** The SQL for a single request that may wait for locks. Defaults to the same SQL. */
  readonly textOfOne?: string
  /** Returns `true` if a request must be sent again with the statement for single requests. */
  readonly mustAskAlone?: (answer: ResultColumns<Column, Bytes>) => boolean
}

const PARAMETER = /@([a-z]\w*)/gi
const TYPED_PARAMETER = /@([a-z]\w*)::(\w+)/gi

/** Builds an organization's statement from constant parts. Values are always passed as parameters. */
export function defineStatement<Values, Column extends string, Bytes extends Column = never>({
  steps = [],
  answer,
  bytes = [],
  from = '',
}: StatementParts<Column, Bytes>): FixedStatement<Values, Column, Bytes> {
  const columns = Object.keys(answer) as Column[]
  // Column names must be unique because many drivers return rows as objects.
  const template = [
    steps.length === 0 ? '' : `with ${steps.join(',\n')}`,
    `select ${columns.map((column) => `${answer[column]} as "${column}"`).join(',\n  ')},`,
    `${ifHere('@organizationId::text', '@answerTag::text')} as "answerTag"`,
    from,
  ].join('\n')
  const names = [...new Set([...template.matchAll(PARAMETER)].map(([, name = '']) => name))]
  const ordered = [...names.filter((name) => name !== ANSWER_TAG), ANSWER_TAG]
  return {
    text: template.replace(PARAMETER, (_, name: string) => `$${ordered.indexOf(name) + 1}`),
    parameters: ordered.slice(0, -1) as (keyof Values & string)[],
    columns,
    bytes,
  }
}

const ANSWER_TAG = 'answerTag'

/**
 * Builds a statement for any number of requests. There are no steps, every `@name` must have a cast, and `from`
 * continues a join with one row per request.
 */
export function defineBatch<Values, Column extends string, Bytes extends Column = never>({
  answer,
  bytes = [],
  from = '',
}: StatementParts<Column, Bytes>): BatchStatement<Values, Column, Bytes> {
  const columns = Object.keys(answer) as Column[]
  const template = [
    `select ${columns.map((column) => `${answer[column]} as "${column}"`).join(',\n  ')},`,
    `asked.place::text as "place", ${ifHere('@organizationId::text', '$TAG::text')} as "answerTag"`,
    'from unnest($ARRAYS) with ordinality as asked ($NAMES, place)',
    from,
  ].join('\n')
  const parameters = [...new Set([...template.matchAll(TYPED_PARAMETER)].map(([, name = '']) => name))]
  // The subqueries hide the number of requests from the planner. Otherwise a plan for a specific number would seem
  // cheaper than the generic one, and PostgreSQL would plan the statement every time.
  const arrays = parameters.map((_, index) => `(select $${index + 1}::text::text[])`)
  return {
    text: template
      .replace(
        TYPED_PARAMETER,
        (_, name: string, type: string) => `nullif(asked."${name}", e'\\x01')::${type}`,
      )
      .replace('$TAG', () => `$${parameters.length + 1}`)
      .replace('$ARRAYS', () => arrays.join(', '))
      .replace('$NAMES', () => parameters.map((name) => `"${name}"`).join(', ')),
    parameters: parameters as (keyof Values & string)[],
    columns,
    bytes,
  }
}

/**
 * Represents null. The word NULL won't do, because it's a regular string in databases with `array_nulls = off`.
 * Requests never contain this character.
 */
const NULL_TEXT = '\x01'

/** Formats a PostgreSQL array for {@link defineBatch}. */
export function arrayOf(values: readonly Value[]): string {
  const elements = values.map((value) =>
    value === null ? NULL_TEXT : `"${String(value).replaceAll(/["\\]/g, '\\$&')}"`,
  )
  return `{${elements.join(',')}}`
}

/** A result's columns by name. */
export type ResultColumns<Column extends string, Bytes extends Column> = {
  readonly [Name in Column]: (Name extends Bytes ? Buffer : string) | null
}

/**
 * Sends a statement and returns its only row by column name. The statement is prepared if the connections allow it.
 *
 * @param share the organization whose connections are used; `null` for work across organizations
 * @throws same as {@link RecordDatabase.rowFor}
 */
export async function ask<Values extends object, Column extends string, Bytes extends Column>(
  database: RecordDatabase,
  share: Share | null,
  statement: FixedStatement<Values, Column, Bytes>,
  values: Values & { readonly [Name in keyof Values]: Value },
  wait?: StatementWait,
): Promise<ResultColumns<Column, Bytes>> {
  return readColumns(
    statement,
    await send(database, share, statement.text, () => boundValues(statement, values), wait),
  )
}

/** Sends a statement and parses the JSON in its first column. Returns `null` if the column is null. */
export async function askJson<Value>(
  database: RecordDatabase,
  share: Share | null,
  build: BuildStatement,
): Promise<Value> {
  const [json] = await database.rowFor(share, build)
  return JSON.parse(json ?? 'null')
}

/** Like {@link askJson}, but only needs the expression for the JSON string. */
export function jsonFor<Value>(
  database: RecordDatabase,
  share: Share | null,
  text: (sql: ISql) => Fragment,
): Promise<Value> {
  return askJson(database, share, (sql, answerTag) => sql`select ${text(sql)}, ${answerTag}`)
}

/** Builds a query's rows as a JSON array string. */
export function listOf(sql: ISql, rows: Fragment): Fragment {
  return sql`(select coalesce(pg_catalog.json_agg(item), '[]')::text from (${rows}) as item)`
}

/**
 * Calls a function in our schema that returns JSON, and parses the result.
 *
 * @param call the function with its parameter types
 * @example
 * ```ts
 * await callFor<QueueCounts>(database, null, 'count_queue(text, text, int)', organizationId, endpointId, 10_000)
 * ```
 */
export function callFor<Result>(
  database: RecordDatabase,
  share: Share | null,
  call: string,
  ...values: readonly Value[]
): Promise<Result> {
  const [name = '', ...types] = call.split(/, |\(|\)/)
  return jsonFor(database, share, (sql) => {
    const given = values.map((value, place) => {
      const text = value === null ? null : String(value)
      return sql`${sql.unsafe(place === 0 ? '' : ',')}${text}::text::${sql.unsafe(types[place] ?? 'text')}`
    })
    return sql`${sql.unsafe(`business_api.${name}`)}(${given})::text`
  })
}

/**
 * Like {@link ask}, but runs a {@link BatchStatement} for a single request.
 *
 * @param parameters returns the parameters once there's a connection. Must return the same ones on a retry
 */
export async function askAlone<Values, Column extends string, Bytes extends Column>(
  database: RecordDatabase,
  share: Share,
  statement: BatchStatement<Values, Column, Bytes>,
  parameters: () => readonly Value[],
  wait?: StatementWait,
): Promise<ResultColumns<Column, Bytes>> {
  const { text, textOfOne = text } = statement
  const arrays = () => parameters().map((value) => arrayOf([value]))
  return readColumns(statement, await send(database, share, textOfOne, arrays, wait))
}

function send(
  database: RecordDatabase,
  share: Share | null,
  text: string,
  bound: () => readonly Value[],
  wait: StatementWait | undefined,
): Promise<ByteRow> {
  return database.bytesFor(
    share,
    (sql, answerTag) => sql.unsafe(text, [...bound(), answerTag], { prepare: true }),
    wait,
  )
}

/** Returns a request's values in parameter order. */
export function boundValues<Values extends object>(
  { parameters }: { readonly parameters: readonly (keyof Values & string)[] },
  values: Values & { readonly [Name in keyof Values]: Value },
): readonly Value[] {
  return parameters.map((name) => values[name])
}

/** Returns a row's columns by name. */
export function readColumns<Column extends string, Bytes extends Column>(
  { columns, bytes }: Pick<FixedStatement<unknown, Column, Bytes>, 'columns' | 'bytes'>,
  row: ByteRow,
): ResultColumns<Column, Bytes> {
  const answer: Record<string, string | Buffer | null> = {}
  columns.forEach((name, index) => {
    const column = row[index] ?? null
    answer[name] =
      column === null || (bytes as readonly string[]).includes(name) ? column : column.toString('utf8')
  })
  return answer as ResultColumns<Column, Bytes>
}
