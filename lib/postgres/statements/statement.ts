import type { Fragment, ISql } from 'postgres'
import type { BuildStatement, ByteRow, RecordDatabase, StatementWait } from '../connection/database.ts'
import type { Share } from '../connection/turns.ts'
import { ifHere } from './here.ts'

/** The value of a parameter. */
export type Value = string | number | null

/** A constant statement, built once. */
export interface FixedStatement<Values, Column extends string, Bytes extends Column = never> {
  /** The SQL text. The answer tag is the last parameter and the last column. */
  readonly text: string
  /** The names of the parameters before the tag, in order. */
  readonly parameters: readonly (keyof Values & string)[]
  /** The names of the columns before the tag, in order. */
  readonly columns: readonly Column[]
  /** The columns that {@link ask} returns as bytes instead of strings. */
  readonly bytes: readonly Bytes[]
}

/** The parts of a statement. `@name` stands for a parameter, and may occur more than once. */
export interface StatementParts<Column extends string, Bytes extends Column> {
  /** The steps of `with`. */
  readonly steps?: readonly string[]
  /** The columns of the only row: an SQL expression of type text for each name. */
  readonly answer: Readonly<Record<Column, string>>
  /** The columns that {@link ask} returns as bytes instead of strings. Default none. */
  readonly bytes?: readonly Bytes[]
  /** The text that follows the columns, from `from` on. */
  readonly from?: string
}

/**
 * A statement that serves any number of requests. Each parameter is the text of an array, with an element for each request ({@link
 * arrayOf}). Each request gets a row; the column before the answer tag is the request's place, from 1 on.
 */
export interface BatchStatement<Values, Column extends string, Bytes extends Column = never>
  extends FixedStatement<Values, Column, Bytes> {
  /** The text for a single request that may wait for locks. Default the same text. */
  readonly textOfOne?: string
  /** Returns whether a result leaves the request to the single-request statement. Default: none does. */
  readonly mustAskAlone?: (answer: ResultColumns<Column, Bytes>) => boolean
}

const PARAMETER = /@([a-z]\w*)/gi
const TYPED_PARAMETER = /@([a-z]\w*)::(\w+)/gi

/** Builds an organization's statement from constant parts. Values are parameters, never parts of the text. */
export function defineStatement<Values, Column extends string, Bytes extends Column = never>({
  steps = [],
  answer,
  bytes = [],
  from = '',
}: StatementParts<Column, Bytes>): FixedStatement<Values, Column, Bytes> {
  const columns = Object.keys(answer) as Column[]
  // Every column has a name of its own, because many drivers of hosts give a row by name.
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
 * Builds a statement that serves any number of requests.
 *
 * @param parts without steps. Every `@name` has a cast, and `from` continues a join of one row for each request
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
  // The subqueries hide the number of requests from the estimate: a plan for a known number would look cheaper than the plan
  // for any number, and PostgreSQL would plan the statement anew each time.
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

/** Stands for null: a database may have `array_nulls = off`, which makes a string of the word NULL. No value of a request is this character. */
const NULL_TEXT = '\x01'

/** Builds the text of a PostgreSQL array for {@link defineBatch}. */
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
 * Sends a statement, prepared if the connections allow prepared statements, and returns the only row by name.
 *
 * @param share the organization whose share of the connections the statement takes; null for work of no single organization
 * @throws as {@link RecordDatabase.rowFor}
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

/** Sends a statement whose first column is a JSON text, and reads the JSON. Null stands for `null`. */
export async function askJson<Value>(
  database: RecordDatabase,
  share: Share | null,
  build: BuildStatement,
): Promise<Value> {
  const [json] = await database.rowFor(share, build)
  return JSON.parse(json ?? 'null')
}

/** Does the same as {@link askJson} with a single JSON text. */
export function jsonFor<Value>(
  database: RecordDatabase,
  share: Share | null,
  text: (sql: ISql) => Fragment,
): Promise<Value> {
  return askJson(database, share, (sql, answerTag) => sql`select ${text(sql)}, ${answerTag}`)
}

/** Builds the JSON text of a list of rows, given as a query. */
export function listOf(sql: ISql, rows: Fragment): Fragment {
  return sql`(select coalesce(pg_catalog.json_agg(item), '[]')::text from (${rows}) as item)`
}

/**
 * Calls a function of the schema that returns JSON, and reads it.
 *
 * @param call the function with the types of its parameters
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
 * Does the same as {@link ask} with a statement for any number of requests, and one request's parameters.
 *
 * @param parameters gives the parameters when the statement has a connection; the same ones when it is sent again
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

/** Puts a request's values into the order of the parameters. */
export function boundValues<Values extends object>(
  { parameters }: { readonly parameters: readonly (keyof Values & string)[] },
  values: Values & { readonly [Name in keyof Values]: Value },
): readonly Value[] {
  return parameters.map((name) => values[name])
}

/** Reads the columns of a statement's row by name. */
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
