import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Sql, TransactionSql } from 'postgres'
import { slotOf } from '../../access/slots.ts'
import { BusinessApiError, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import { sleep } from '../../base/time.ts'
import { openPlainPool } from '../connection/plain-pool.ts'
import { DELETED_TABLES } from '../organizations.ts'
import { isMoving, type OrganizationPlace } from './shard-place.ts'

// A move of an organization X from shard a to shard d. In the map, X has version k; 0 without an entry.
//
//   close   d: (X, k+1, d), not here
//   hold    a: (X, k+1, d), not here. Waits for the statements and transactions that have seen an earlier map
//   copy    d: (X, k+2, d), here, and all rows of X as of one snapshot of a, in one transaction. Its commit is the move
//   tell    a and all other shards: (X, k+2, d), not here
//   delete  a: all rows of X, in parts
//
// A process that is killed anywhere leaves X closed, or moved: the same call does the rest. From the hold on, a move back to a takes the
// move back: d gets (X, k+2, a), which its primary key allows only without a copy, and then a gets (X, k+2, a), here.

/** How far a move has come. */
export type MoveStep =
  | { readonly step: 'close' | 'hold' | 'tell' }
  | { readonly step: 'copy' | 'delete'; readonly rows: number }

/** Options of {@link moveOrganization}. */
export interface MoveOptions {
  /** Moves only an organization without rows: one that is new. Default false. */
  readonly isNew?: boolean | undefined
  /** Milliseconds to wait for transactions that began before the hold; then the move is taken back. Default 10,000. */
  readonly holdMs?: number | undefined
  /** Called as the move goes on. */
  readonly onStep?: ((step: MoveStep) => void) | undefined
}

/** The result of a move. */
export interface MoveReport {
  readonly from: string
  readonly to: string
  /** Rows copied by this call. */
  readonly copied: number
  /** Rows deleted by this call. */
  readonly deleted: number
  /** Shards that could not be reached, and are told at their next entry into a process. */
  readonly untold: readonly string[]
}

interface State {
  /** The shard of the organization, and the version of its entry; 0 without one. */
  readonly settled: OrganizationPlace
  /** The shard to which a move has begun; null: none has. */
  readonly begun: string | null
  /** The shard of the organization's slot. */
  readonly ofSlot: string
}

interface Site {
  readonly name: string
  readonly sql: Sql
}

/**
 * Moves an organization to another shard, or goes on with a move that was cut off. Meanwhile calls for the organization get
 * `store_unavailable`. Needs the privileges of the schema's owner.
 *
 * @param urls the connection strings of all shards by name
 * @throws `BusinessApiError` with code `wrong_shard` for a move that is not possible, with code `store_unavailable` for one that was taken
 *   back because other transactions stay open
 */
export async function moveOrganization(
  urls: ReadonlyMap<string, string>,
  organizationId: string,
  to: string,
  { isNew = false, holdMs = HOLD_MS, onStep = () => {} }: MoveOptions = {},
): Promise<MoveReport> {
  const sites: Site[] = []
  const untold: string[] = []
  try {
    for (const [name, url] of urls) {
      const sql = await openPlainPool(url)
      sites.push({ name, sql })
      await sql`select 1`.catch(() => untold.push(name))
    }
    const there = sites.filter(({ name }) => !untold.includes(name))
    return await createMove(there, untold, organizationId, { isNew, holdMs, onStep }).run(to)
  } finally {
    await Promise.all(sites.map(({ sql }) => sql.end({ timeout: 5 })))
  }
}

const HOLD_MS = 10_000
/** Rows of a part of the deletion. */
const PART_LIMIT = 1000

/** Creates a move over shards that can be reached. */
function createMove(
  sites: readonly Site[],
  untold: readonly string[],
  id: string,
  { isNew, holdMs, onStep }: Required<{ [Name in keyof MoveOptions]: NonNullable<MoveOptions[Name]> }>,
): { run(to: string): Promise<MoveReport> } {
  const find = (name: string): Site => {
    const site = sites.find((each) => each.name === name)
    if (site) return site
    if (untold.includes(name)) throw storeUnavailable(`Cannot move ${id} because shard '${name}' is away`)
    throw impossible(`there is no shard '${name}'`)
  }

  const impossible = (reason: string): BusinessApiError =>
    new BusinessApiError(WRONG_SHARD, `Cannot move ${id} because ${reason}`)

  /** Writes an entry, unless the shard has one of that version. @returns the name in the shard's entry */
  async function write({ sql }: Site, [name, version]: OrganizationPlace, isHere: boolean): Promise<string> {
    await insertEntry(sql, [name, version], isHere)
    const [entry] = await sql<{ name: string }[]>`
      select name from business_api.shard_places where organization_id = ${id} and version = ${version}`
    return entry?.name ?? ''
  }

  function insertEntry(
    sql: Sql | TransactionSql,
    [name, version]: OrganizationPlace,
    isHere: boolean,
  ): Promise<readonly unknown[]> {
    return sql`
      insert into business_api.shard_places (organization_id, name, version, is_here)
      values (${id}, ${name}, ${version}, ${isHere}) on conflict do nothing returning 1`
  }

  /** The latest shard of the organization, and the move that has begun there. */
  async function readState(): Promise<State> {
    const places = await Promise.all(sites.map(readPlace))
    const [{ slots } = { slots: [] }] = places.map(({ place }) => place)
    const entries = places.flatMap(({ own }) => own).filter((entry) => !isMoving(entry))
    const first: OrganizationPlace = [slots[slotOf(id)] ?? '', 0]
    const settled = entries.reduce((best, entry) => (entry[1] > best[1] ? entry : best), first)
    // The origin decides between moves that began at once.
    const ofOrigin = places.find(({ place }) => place.name === settled[0])?.own ?? []
    const begun = ofOrigin.find(([, version]) => version === settled[1] + 1)
    return { settled, begun: begun?.[0] ?? null, ofSlot: first[0] }
  }

  async function readPlace({ name, sql }: Site) {
    const [place] = await sql<{ name: string; slots: string }[]>`
      select name, to_json(slots)::text as slots from business_api.shard_places
      where organization_id = '' order by version desc limit 1`
    if (place?.name !== name) throw impossible(`the database of shard '${name}' is not that shard's`)
    const own = await sql<{ name: string; version: string }[]>`
      select name, version::text from business_api.shard_places where organization_id = ${id}`
    return {
      place: { name, slots: JSON.parse(place.slots) as string[] },
      own: own.map((entry) => [entry.name, Number(entry.version)] as const),
    }
  }

  /** Moves the organization back to the shard that it has not left. */
  async function takeBack(target: Site, [from, version]: OrganizationPlace): Promise<void> {
    const back = [from, version + 2] as const
    if ((await write(target, back, false)) !== from)
      throw impossible(`it has moved to '${target.name}' already: move it once more`)
    await write(find(from), back, true)
    await tell(back)
  }

  async function tell(place: OrganizationPlace): Promise<void> {
    onStep({ step: 'tell' })
    const [name] = place
    for (const site of sites) if (site.name !== name) await write(site, place, false)
  }

  async function hold(origin: Site, target: Site, place: OrganizationPlace): Promise<void> {
    onStep({ step: 'close' })
    await write(target, place, false)
    onStep({ step: 'hold' })
    const begun = await write(origin, place, false)
    if (begun !== target.name) throw impossible(`it is moving to '${begun}'`)
  }

  async function copy(origin: Site, target: Site, place: OrganizationPlace): Promise<number> {
    let rows = 0
    await makeDays(origin.sql, target.sql)
    await origin.sql.begin('isolation level repeatable read read only', async (source) => {
      await source.unsafe(PLAIN)
      await target.sql.begin(async (sink) => {
        await sink.unsafe(`${PLAIN}; set local synchronous_commit to on`)
        await sink`select business_api.lock_move(${id})`
        // First, so that another call for the same move waits here, and finds it done. The version is taken where the move was taken back.
        if ((await insertEntry(sink, place, true)).length === 0) return
        await deleteAll(sink, 'delete_organization_part', id, () => {})
        for (const table of await tablesOf(source)) {
          await copyRows(source, sink, table, id, (added) => {
            rows += added
            onStep({ step: 'copy', rows })
          })
        }
      })
    })
    if ((await write(target, place, true)) !== target.name) throw impossible('the move was taken back')
    return rows
  }

  async function deleteLeft({ sql }: Site): Promise<number> {
    return deleteAll(sql, 'delete_left_part', id, (rows) => onStep({ step: 'delete', rows }))
  }

  return {
    async run(to) {
      const target = find(to)
      const { settled, begun, ofSlot } = await readState()
      // Lookups of keys ask the shard of the slot: it is told before anything is deleted.
      find(ofSlot)
      const [from, version] = settled
      const report = { from, to, untold }
      if (begun !== null && from === to) {
        await takeBack(find(begun), settled)
        return { ...report, copied: 0, deleted: await deleteLeft(find(begun)) }
      }
      if (begun !== null && begun !== to)
        throw impossible(`it is moving to '${begun}': move it there, or back to '${from}'`)
      let copied = 0
      if (from !== to) {
        const origin = find(from)
        await hold(origin, target, [to, version + 1])
        try {
          await awaitOthers(origin.sql, holdMs)
          if (isNew && (await hasRows(origin.sql, id)))
            throw impossible('it is not new: see organizations move')
          copied = await copy(origin, target, [to, version + 2])
        } catch (error) {
          // If the copy has been committed after all, or a shard is away now: the same call goes on.
          await takeBack(target, settled).catch(() => {})
          throw error
        }
        await tell([to, version + 2])
      } else if (version > 0) await tell(settled)
      let deleted = 0
      for (const site of sites) if (site.name !== to) deleted += await deleteLeft(site)
      return { ...report, copied, deleted }
    },
  }
}

/** The texts of values are read as they are written, and a policy that hides rows is an error. */
const PLAIN = `set local datestyle to iso; set local extra_float_digits to 1; set local row_security to off`

/** Waits for the end of every transaction that may have read an earlier map. @throws with code `store_unavailable` */
async function awaitOthers(sql: Sql, holdMs: number): Promise<void> {
  const [now] = await sql<{ bound: string }[]>`
    select pg_snapshot_xmax(pg_current_snapshot())::text as bound`
  const bound = now?.bound ?? '0'
  for (const endsAt = performance.now() + holdMs; ; await sleep(POLL_MS)) {
    // A snapshot that was taken earlier has a lower xmin. A vacuum has no user, and reads no map.
    const [state] = await sql<{ isOver: boolean; pids: string | null }[]>`
      with other as (
        select pid from pg_stat_activity
        where datname = current_database() and usesysid is not null and pid <> pg_backend_pid() and (
          age(backend_xmin) > age(${bound}::text::xid8::xid) or age(backend_xid) > age(${bound}::text::xid8::xid)
        )
      )
      select
        pg_snapshot_xmin(pg_current_snapshot()) >= ${bound}::text::xid8 and not exists (select from other) as "isOver",
        (select string_agg(pid::text, ', ') from other) as pids`
    if (state?.isOver) return
    if (performance.now() > endsAt) {
      const who = state?.pids ? `the sessions ${state.pids}` : 'transactions of other databases'
      throw storeUnavailable(`Cannot move the organization because ${who} stay open: end them, and try again`)
    }
  }
}

/** Milliseconds between two looks at the transactions of others. */
const POLL_MS = 20

async function tablesOf(sql: Sql | TransactionSql): Promise<readonly string[]> {
  const [list] = await sql<{ tables: string }[]>`
    select to_json(business_api.organization_tables(${RECORD_TABLES}::text::text[]))::text as tables`
  return (JSON.parse(list?.tables ?? '[]') as string[][]).map(([name = '']) => name).reverse()
}

async function hasRows(sql: Sql, id: string): Promise<boolean> {
  for (const table of await tablesOf(sql)) {
    const rows =
      await sql`select 1 from ${sql(`business_api.${table}`)} where organization_id = ${id} limit 1`
    if (rows.length > 0) return true
  }
  return false
}

/** Deletes rows of an organization, part by part, until a pass finds none. @returns their number */
async function deleteAll(
  sql: Sql | TransactionSql,
  routine: 'delete_organization_part' | 'delete_left_part',
  id: string,
  onRows: (rows: number) => void,
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

/** Makes the days that the source has and the target lacks. */
async function makeDays(source: Sql, target: Sql): Promise<void> {
  const [days] = await source<{ begins: string | null; ends: string | null }[]>`
    select extract(epoch from min(begins_at))::text as begins, extract(epoch from max(ends_at))::text as ends
    from business_api.event_days where organization_id = '' and dropped_at is null`
  if (days?.begins == null) return
  await target`
    select business_api.make_days_between(
      to_timestamp(${days.begins}::text::float8), to_timestamp(${days.ends}::text::float8)
    )`
}

/**
 * Copies the rows of an organization in a table. The columns are named, because tables may have got their columns in another order. Left
 * out are those that are computed, and the transaction of the latest change, which is the copy here.
 */
async function copyRows(
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
  const into = await sink.unsafe(`copy ${name} (${columns}) from stdin`).writable()
  // Each row is a line: COPY writes a line break in a value as \n.
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      onRows(chunk.filter((byte) => byte === LINE_BREAK).length)
      done(null, chunk)
    },
  })
  await pipeline(from, counted, into)
  // postgres.js 3.4.9 leaves the socket paused if the last rows have filled the stream's buffer: the connection would stay silent.
  from._read(0)
}

const LINE_BREAK = 10
