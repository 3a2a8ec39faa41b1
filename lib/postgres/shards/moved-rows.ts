import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import type { Sql, TransactionSql } from 'postgres'
import { DELETED_TABLES } from '../organizations.ts'

// The rows of an organization that is being moved to another shard. See move.ts.

/** Batch size for deletes. */
const PART_LIMIT = 1000

async function tablesOf(sql: Sql | TransactionSql): Promise<readonly string[]> {
  const [list] = await sql<{ tables: string }[]>`
    select to_json(business_api.organization_tables(${RECORD_TABLES}::text::text[]))::text as tables`
  return (JSON.parse(list?.tables ?? '[]') as string[][]).map(([name = '']) => name).reverse()
}

/** Returns `true` if a database has rows of an organization. */
export async function hasRows(sql: Sql, id: string): Promise<boolean> {
  for (const table of await tablesOf(sql)) {
    const rows =
      await sql`select 1 from ${sql(`business_api.${table}`)} where organization_id = ${id} limit 1`
    if (rows.length > 0) return true
  }
  return false
}

/** Deletes an organization's rows in batches until there are none left. Returns the number of deleted rows. */
export async function deleteRows(
  sql: Sql | TransactionSql,
  routine: 'delete_organization_part' | 'delete_left_part',
  id: string,
  onRows: (rows: number) => void = () => {},
): Promise<number> {
  let rows = 0
  let [after, isEmpty]: [string | null, boolean] = [null, true]
  do {
    if (after === null) isEmpty = true
    const answer: readonly Part[] = await sql<Part[]>`
      select nullif(part -> 'next', 'null')::text as next,
             (select coalesce(sum(value::int), 0)::int from jsonb_each_text(part -> 'counts')) as deleted
      from business_api.${sql(routine)}(${id}, ${PART_LIMIT}, ${after}::text::jsonb, ${RECORD_TABLES}::text::text[]) as part`
    const { next, deleted } = answer[0] ?? { next: null, deleted: 0 }
    after = next
    if (deleted === 0) continue
    isEmpty = false
    rows += deleted
    onRows(rows)
  } while (after !== null || !isEmpty)
  return rows
}

interface Part {
  readonly next: string | null
  readonly deleted: number
}

const RECORD_TABLES = `{${DELETED_TABLES.join()}}`

/** Creates the source's days on the target. */
export async function makeDays(source: Sql, target: Sql): Promise<void> {
  const [days] = await source<{ begins: string | null; ends: string | null }[]>`
    select extract(epoch from min(begins_at))::text as begins, extract(epoch from max(ends_at))::text as ends
    from business_api.event_days where organization_id = '' and dropped_at is null`
  if (days?.begins == null) return
  await target`
    select business_api.make_days_between(
      to_timestamp(${days.begins}::text::float8), to_timestamp(${days.ends}::text::float8)
    )`
}

/** Copies all of an organization's rows. Returns their number, and passes the number so far to `onRows`. */
export async function copyRows(
  source: TransactionSql,
  sink: TransactionSql,
  id: string,
  onRows: (rows: number) => void,
): Promise<number> {
  let rows = 0
  for (const sql of [source, sink]) await sql.unsafe(PLAIN)
  for (const table of await tablesOf(source)) {
    await copyTable(source, sink, table, id, (added) => {
      rows += added
      onRows(rows)
    })
  }
  return rows
}

/** Makes values read the way they're written, turns a policy that hides rows into an error, and disables timeouts. */
const PLAIN = `
  set local datestyle to iso; set local extra_float_digits to 1; set local row_security to off;
  set local statement_timeout to 0; set local idle_in_transaction_session_timeout to 0`

/**
 * Copies an organization's rows in one table. Column order may vary between databases, so columns are listed. Skips
 * generated columns, and also `changed_xid`, since the latest change is now the copy itself.
 */
async function copyTable(
  source: TransactionSql,
  sink: TransactionSql,
  table: string,
  id: string,
  onRows: (rows: number) => void,
): Promise<void> {
  const [parts] = await source<{ columns: string; literal: string }[]>`
    select string_agg(quote_ident(attname), ', ' order by attnum) as columns, quote_literal(${id}::text) as literal
    from pg_attribute
    where attrelid = ${`business_api.${table}`}::text::regclass and attnum > 0 and not attisdropped
      and attgenerated = '' and attname <> 'changed_xid'`
  const { columns, literal } = parts ?? { columns: '', literal: '' }
  const name = `business_api.${table}`
  const from = await source
    .unsafe(`copy (select ${columns} from ${name} where organization_id = ${literal}) to stdout`)
    .readable()
  const query = sink.unsafe(`copy ${name} (${columns}) from stdin`)
  const into = await query.writable()
  // postgres.js 3.4.9 ignores errors after CopyDone, and follows it with CopyFail, which makes PgDog close the connection.
  Object.assign(query, { reject: (error: Error) => into.destroy(error) })
  const fail = into._destroy.bind(into)
  into._destroy = (error, done) => (into.writableEnded ? done(error) : fail(error, done))
  async function* counted(): AsyncIterable<Buffer> {
    for await (const chunk of from.iterator({ destroyOnReturn: false })) {
      yield chunk
      // COPY escapes line breaks in values, so each row is one line.
      onRows(chunk.filter((byte: number) => byte === LINE_BREAK).length)
    }
  }
  try {
    await pipeline(counted, into)
  } finally {
    // After an error, the source's transaction can't end before all rows have been read.
    from.on('data', () => {})
    if (!from.destroyed) await once(from, 'end')
    // If the last rows filled the stream's buffer, the driver leaves the socket paused.
    from._read(0)
  }
}

const LINE_BREAK = 10
