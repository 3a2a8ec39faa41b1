import type { Sql, TransactionSql } from 'postgres'
import { slotOf } from '../../access/slots.ts'
import { BusinessApiError, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import { openPlainPool } from '../connection/plain-pool.ts'
import { copyRows, deleteRows, hasRows, makeDays } from './moved-rows.ts'
import { awaitOthers } from './other-transactions.ts'
import { isMoving, type OrganizationPlace } from './shard-place.ts'

// Moves an organization X from shard a to shard d. Before the move, X has version k in the map (0 if it has no entry).
//
//   close   d: (X, k+1, d), not here
//   hold    a: (X, k+1, d), not here. Waits for all statements and transactions that have seen an earlier map
//   copy    d: (X, k+2, d), here, and all rows of X from one snapshot of a, in a transaction whose commit is the move
//   tell    a and all other shards: (X, k+2, d), not here
//   delete  a: all rows of X, in batches
//
// If the process is killed at any point, X is either closed or moved, and another call completes the move. Once the
// hold has begun, moving X back to a reverts the move: d gets (X, k+2, a), which its primary key only allows if nothing
// was copied, and then a gets (X, k+2, a), here.

/** The progress of a move. */
export type MoveStep =
  | { readonly step: 'close' | 'hold' | 'tell' }
  | { readonly step: 'copy' | 'delete'; readonly rows: number }

/** Options for {@link moveOrganization}. */
export interface MoveOptions {
  /** If `true`, the organization is only moved if it's new, i.e. has no rows. Defaults to `false`. */
  readonly isNew?: boolean | undefined
  /** How long to wait for earlier transactions before reverting the move, in milliseconds. Defaults to 10,000. */
  readonly holdMs?: number | undefined
  /** Called to report progress. */
  readonly onStep?: ((step: MoveStep) => void) | undefined
}

/** The result of a move. */
export interface MoveReport {
  readonly from: string
  readonly to: string
  /** Number of rows copied by this call. */
  readonly copied: number
  /** Number of rows deleted by this call. */
  readonly deleted: number
  /** Unreachable shards. Each gets the new map the next time a process starts using it. */
  readonly untold: readonly string[]
}

interface State {
  /** The organization's shard and the entry's version, which is 0 if there's no entry. */
  readonly settled: OrganizationPlace
  /** The target of a move in progress, or `null`. */
  readonly begun: string | null
  /** If `true`, the organization's own shard is closed because reverting a move was interrupted. */
  readonly isClosed: boolean
  /** The slot's shard. */
  readonly ofSlot: string
}

interface Site {
  readonly name: string
  readonly sql: Sql
}

/**
 * Moves an organization to another shard, or continues an interrupted move. In the meantime, calls for the organization
 * fail with `store_unavailable`. Requires the privileges of the schema's owner.
 *
 * @param urls the connection strings of all shards by name
 * @throws `BusinessApiError` with code `wrong_shard` if the move isn't possible, or `store_unavailable` if it was
 * reverted because of transactions that don't end
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

/** Creates a move between reachable shards. */
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

  /** Writes an entry, unless the shard has one with that version. Returns the name in the shard's entry. */
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
    // Don't rely on the server's default, since losing an entry would open a closed shard.
    return sql`
      insert into business_api.shard_places (organization_id, name, version, is_here)
      select ${id}, ${name}, ${version}::bigint, ${isHere}::boolean from set_config('synchronous_commit', 'on', true)
      on conflict do nothing returning 1`
  }

  /** Reads where the organization is and whether a move has begun there. */
  async function readState(): Promise<State> {
    const places = await Promise.all(sites.map(readPlace))
    const [{ slots } = { slots: [] }] = places.map(({ place }) => place)
    const entries = places.flatMap(({ own }) => own).filter((entry) => !isMoving(entry))
    const first: OrganizationPlace = [slots[slotOf(id)] ?? '', 0]
    const settled = entries.reduce((best, entry) => (entry[1] > best[1] ? entry : best), first)
    // If two moves begin at once, the origin decides.
    const ofOrigin = places.find(({ place }) => place.name === settled[0])?.own ?? []
    const atVersion = (version: number): string | undefined =>
      ofOrigin.find((entry) => entry[1] === version)?.[0]
    const [name, version] = settled
    const left = atVersion(version - 1) ?? name
    return {
      settled,
      begun: atVersion(version + 1) ?? null,
      isClosed: left !== name && atVersion(version) === undefined,
      ofSlot: first[0],
    }
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

  /** Moves the organization back to the shard it hasn't left yet. */
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
      await target.sql.begin(async (sink) => {
        await sink`select business_api.lock_move(${id})`
        // This comes first so that another call for the same move waits here and then finds it done. After a revert,
        // the version is already taken.
        if ((await insertEntry(sink, place, true)).length === 0) return
        await deleteRows(sink, 'delete_organization_part', id)
        rows = await copyRows(source, sink, id, (copied) => onStep({ step: 'copy', rows: copied }))
      })
    })
    if ((await write(target, place, true)) !== target.name) throw impossible('the move was taken back')
    return rows
  }

  async function deleteLeft({ sql }: Site): Promise<number> {
    return deleteRows(sql, 'delete_left_part', id, (rows) => onStep({ step: 'delete', rows }))
  }

  return {
    async run(to) {
      const target = find(to)
      const { settled, begun, isClosed, ofSlot } = await readState()
      // Key lookups query the slot's shard, so it must be updated before anything is deleted.
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
          // The copy may have been committed after all, or a shard may be down. Another call continues the move.
          await takeBack(target, settled).catch(() => {})
          throw error
        }
        await tell([to, version + 2])
      } else if (version > 0) {
        if (isClosed) await write(target, settled, true)
        await tell(settled)
      }
      let deleted = 0
      for (const site of sites) if (site.name !== to) deleted += await deleteLeft(site)
      return { ...report, copied, deleted }
    },
  }
}
