import { pipeline } from 'node:stream/promises'
import type { Sql } from 'postgres'
import type { RecordDatabase } from '../connection/database.ts'
import { inTransaction } from '../connection/plain-transaction.ts'
import { DELETED_TABLES } from '../organizations.ts'
import { callFor } from '../statements/statement.ts'

// The rows of an organization that is being moved to another shard. See move.ts.

/** Maximum number of rows that one statement deletes. */
const PART_LIMIT = 1000

/** Deletes an organization's rows in batches until there are none left. Returns the number of deleted rows. */
export async function deleteRows(
  database: RecordDatabase,
  routine: 'delete_organization_part' | 'delete_left_part',
  id: string,
  onRows: (rows: number) => void = () => {},
): Promise<number> {
  let [rows, after, isEmpty]: [number, unknown, boolean] = [0, null, true]
  do {
    if (after === null) isEmpty = true
    const given = after === null ? null : JSON.stringify(after)
    const call = `${routine}(text, integer, jsonb, text[])`
    const part: Part = await callFor<Part>(database, null, call, id, PART_LIMIT, given, RECORD_TABLES)
    after = part.next ?? null
    const deleted = Object.values(part.counts).reduce((sum, count) => sum + count, 0)
    if (deleted === 0) continue
    isEmpty = false
    rows += deleted
    onRows(rows)
  } while (after !== null || !isEmpty)
  return rows
}

type Part = { readonly next?: unknown; readonly counts: Readonly<Record<string, number>> }

const RECORD_TABLES = `{${DELETED_TABLES.join()}}`

/** Creates the source's days on the target. */
export async function makeDays(source: RecordDatabase, target: RecordDatabase): Promise<void> {
  const [begins, ends] = await source.rowFor(
    null,
    (sql, answerTag) => sql`
      select extract(epoch from min(begins_at))::text as begins, extract(epoch from max(ends_at))::text as ends, ${answerTag}
      from business_api.event_days where organization_id = '' and dropped_at is null`,
  )
  if (begins == null) return
  await target.rowFor(
    null,
    (sql, answerTag) => sql`
      select business_api.make_days_between(
        to_timestamp(${begins}::text::float8), to_timestamp(${ends ?? null}::text::float8)
      )::text, ${answerTag}`,
  )
}

/** Makes values read the way they're written, and turns a policy that hides rows into an error. */
const PLAIN = 'set local datestyle to iso; set local extra_float_digits to 1; set local row_security to off'

/** Runs `work` in a read-only transaction on the source and a transaction on the target. */
export function inTransactions(
  [source, target]: readonly [url: string, url: string],
  work: (source: Sql, sink: Sql) => Promise<void>,
): Promise<void> {
  return inTransaction(source, 'repeatable read read only', async (reading) => {
    await reading.unsafe(PLAIN)
    await inTransaction(target, 'read committed read write', async (sink) => {
      await sink.unsafe(PLAIN)
      await work(reading, sink)
    })
  })
}

/**
 * Copies all of an organization's rows. Column order may vary between databases, so columns are listed. Skips generated
 * columns, and also `changed_xid`, since the latest change is now the copy itself.
 *
 * @param onRows receives the number of rows in each chunk
 */
export async function copyRows(
  source: Sql,
  sink: Sql,
  id: string,
  onRows: (rows: number) => void,
): Promise<void> {
  const tables = await source<{ name: string; columns: string; owner: string }[]>`
    select 'business_api.' || list[place][1] as name, quote_literal(${id}::text) as owner, (
      select string_agg(quote_ident(attname), ', ') from pg_attribute
      where attrelid = ('business_api.' || list[place][1])::regclass and attnum > 0 and not attisdropped
        and attgenerated = '' and attname <> 'changed_xid'
    ) as columns
    from business_api.organization_tables(${RECORD_TABLES}::text::text[]) as list, generate_subscripts(list, 1) as place
    order by place desc`
  for (const { name, columns, owner } of tables) {
    const from = `copy (select ${columns} from ${name} where organization_id = ${owner}) to stdout`
    await copy(source.unsafe(from), sink.unsafe(`copy ${name} (${columns}) from stdin`), onRows)
  }
}

async function copy(reading: Copy, writing: Copy, onRows: (rows: number) => void): Promise<void> {
  const into = await writing.writable()
  // postgres.js 3.4.9 ignores errors after CopyDone, and follows it with CopyFail, which makes PgDog close the connection.
  Object.assign(writing, { reject: (error: Error) => into.destroy(error) })
  const fail = into._destroy.bind(into)
  into._destroy = (error, done) => (into.writableEnded ? done(error) : fail(error, done))
  async function* counted(): AsyncIterable<Buffer> {
    const from = await reading.readable()
    for await (const chunk of from) {
      yield chunk
      // COPY escapes line breaks in values, so each row is one line.
      onRows(chunk.filter((byte: number) => byte === LINE_BREAK).length)
    }
    // If the last rows filled the stream's buffer, the driver leaves the socket paused.
    from._read(0)
  }
  await pipeline(counted, into)
}

type Copy = ReturnType<Sql['unsafe']>

const LINE_BREAK = 10
