import { slotOf } from '../../access/slots.ts'
import { BusinessApiError, isStoreUnavailable, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import { createDatabase, type Database, type RecordDatabase } from '../connection/database.ts'
import { transactionOn } from '../connection/plain-transaction.ts'
import { createTransactionDatabase } from '../connection/transaction.ts'
import { jsonFor } from '../statements/statement.ts'
import { copyRows, deleteRows, inTransactions, makeDays } from './moved-rows.ts'
import { awaitOthers } from './other-transactions.ts'
import type { OrganizationPlace } from './shard-place.ts'

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
export interface MoveStep {
  readonly step: 'close' | 'hold' | 'copy' | 'tell' | 'delete'
  /** Number of rows copied or deleted so far. */
  readonly rows?: number
}

/** Options for {@link moveOrganization}. */
export interface MoveOptions {
  /** If `true`, the organization is only moved if it's new, i.e. has no rows. Defaults to `false`. */
  readonly isNew?: boolean
  /** How long to wait for earlier transactions before reverting the move, in milliseconds. Defaults to 10,000. */
  readonly holdMs?: number
  /** Called to report progress. */
  readonly onStep?: (step: MoveStep) => void
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

/** A shard's data about the organization when the call began. */
interface SiteEntries {
  /** The shard of its slot. */
  readonly ofSlot: string
  /** Its entries: shard names by version. */
  readonly names: Readonly<Record<number, string>>
  /** `true` if it has keys or records here. It is then no new organization, and `isNew` fails before anything is closed. */
  readonly isKnown: boolean
}

interface Site extends SiteEntries {
  readonly name: string
  readonly url: string
  readonly database: Database
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
  id: string,
  to: string,
  { isNew = false, holdMs = HOLD_MS, onStep = () => {} }: MoveOptions = {},
): Promise<MoveReport> {
  const opened: Database[] = []
  const sites: Site[] = []
  const untold: string[] = []

  const find = (name: string): Site => {
    const site = sites.find((each) => each.name === name)
    if (site) return site
    if (untold.includes(name))
      throw storeUnavailable(`Shard '${name}' is down, and ${id} cannot be moved without it`)
    throw impossible(`there is no shard '${name}'`)
  }

  const impossible = (reason: string): BusinessApiError =>
    new BusinessApiError(WRONG_SHARD, `Cannot move ${id} because ${reason}`)

  /** Writes an entry, unless the shard has one with that version. Returns the name in the shard's entry. */
  async function write(site: Site, place: OrganizationPlace, isHere: boolean): Promise<string | undefined> {
    await insertEntry(site.database, place, isHere)
    return (await readEntries(site.name, site.database)).names[place[1]]
  }

  /** Returns `false` if the database has an entry with that version. */
  async function insertEntry(
    database: RecordDatabase,
    [name, version]: OrganizationPlace,
    isHere: boolean,
  ): Promise<boolean> {
    // Don't rely on the server's default, since losing an entry would open a closed shard.
    const [inserted] = await database.rowFor(
      null,
      (sql, answerTag) => sql`
        with inserted as (
          insert into business_api.shard_places (organization_id, name, version, is_here)
          select ${id}::text, ${name}::text, ${version}::bigint, ${String(isHere)}::text::boolean
          from set_config('synchronous_commit', 'on', true)
          on conflict do nothing returning 1
        )
        select count(*)::text as inserted, ${answerTag} from inserted`,
    )
    return inserted === '1'
  }

  async function readEntries(name: string, database: Database): Promise<SiteEntries> {
    const found = await jsonFor<(SiteEntries & { readonly name: string }) | null>(
      database,
      null,
      (sql) => sql`(
        select json_build_object('name', name, 'ofSlot', slots[${slotOf(id) + 1}::int], 'names', (
          select coalesce(json_object_agg(version, name), '{}') from business_api.shard_places
          where organization_id = ${id}::text
        ), 'isKnown', (
          exists (select from business_api.api_keys where organization_id = ${id}::text)
          or exists (select from business_api.businesses where organization_id = ${id}::text)
        ))
        from business_api.shard_places where organization_id = '' order by version desc limit 1
      )::text`,
    )
    if (found === null) throw impossible(`shard '${name}' has not been added yet`)
    if (found.name !== name) throw impossible(`the database of shard '${name}' is shard '${found.name}'`)
    return found
  }

  async function tell(place: OrganizationPlace): Promise<void> {
    onStep({ step: 'tell' })
    for (const site of sites) if (site.name !== place[0]) await write(site, place, false)
  }

  /** Moves the organization back to the shard it hasn't left yet. */
  async function takeBack(target: Site, [from, version]: OrganizationPlace): Promise<void> {
    const back = [from, version + 2] as const
    if ((await write(target, back, false)) !== from)
      throw impossible(`it has moved to '${target.name}' already: move it once more`)
    await write(find(from), back, true)
    await tell(back)
  }

  async function copy(origin: Site, target: Site, place: OrganizationPlace): Promise<number> {
    let rows = 0
    await makeDays(origin.database, target.database)
    await inTransactions([origin.url, target.url], async (source, sink) => {
      const writing = createTransactionDatabase(transactionOn(sink), async (error) => error)
      await sink`select business_api.lock_move(${id})`
      // This comes first so that another call for the same move waits here and then finds it done. After a revert, the
      // version is already taken.
      if (!(await insertEntry(writing, place, true))) return
      await deleteRows(writing, 'delete_organization_part', id)
      await copyRows(source, sink, id, (copied) => {
        if (isNew) throw impossible(NOT_NEW)
        rows += copied
        onStep({ step: 'copy', rows })
      })
    })
    if ((await write(target, place, true)) !== target.name) throw impossible('the move was taken back')
    return rows
  }

  async function carry(origin: Site, target: Site, settled: OrganizationPlace): Promise<number> {
    const version = settled[1]
    onStep({ step: 'close' })
    await write(target, [to, version + 1], false)
    onStep({ step: 'hold' })
    const begun = await write(origin, [to, version + 1], false)
    if (begun !== to) throw impossible(`it is moving to '${begun}'`)
    try {
      await awaitOthers(origin.database, holdMs)
      return await copy(origin, target, [to, version + 2])
    } catch (error) {
      // The copy may have been committed after all, or a shard may be down. Another call continues the move.
      await takeBack(target, settled).catch(() => {})
      throw error
    }
  }

  try {
    for (const [name, url] of urls) {
      const database = createDatabase(url, SESSION)
      opened.push(database)
      try {
        sites.push({ ...(await readEntries(name, database)), name, url, database })
      } catch (error) {
        if (!isStoreUnavailable(error)) throw error
        untold.push(name)
      }
    }
    const target = find(to)
    // Key lookups query the slot's shard, so it must be updated before anything is deleted.
    const ofSlot = find(sites[0]?.ofSlot ?? '').name
    // If there's no entry, the version is 0. Odd versions are moves in progress.
    const names: SiteEntries['names'] = Object.assign({ 0: ofSlot }, ...sites.map((site) => site.names))
    const version = Math.max(
      ...Object.keys(names)
        .map(Number)
        .filter((each) => each % 2 === 0),
    )
    const from = names[version] ?? ofSlot
    const settled = [from, version] as const
    const origin = sites.find(({ name }) => name === from)
    // If two moves begin at once, the origin decides.
    const begun = origin?.names[version + 1]
    let copied = 0
    if (from !== to) {
      if (begun !== undefined && begun !== to)
        throw impossible(`it is moving to '${begun}': move it there, or back to '${from}'`)
      if (isNew && origin?.isKnown) throw impossible(NOT_NEW)
      copied = await carry(find(from), target, settled)
      await tell([to, version + 2])
    } else if (begun !== undefined) await takeBack(find(begun), settled)
    else if (version > 0) {
      // Reverting a move was interrupted before its origin was opened again.
      if ((origin?.names[version - 1] ?? from) !== from) await write(target, settled, true)
      await tell(settled)
    }
    let deleted = 0
    for (const site of sites)
      if (site.name !== to)
        deleted += await deleteRows(site.database, 'delete_left_part', id, (rows) =>
          onStep({ step: 'delete', rows }),
        )
    return { from, to, copied, deleted, untold }
  } finally {
    await Promise.all(opened.map((database) => database.close({ timeoutMs: 0 })))
  }
}

const NOT_NEW = 'it is not new: see organizations move'
const HOLD_MS = 10_000

/** How the shards are used, even through a pooler in transaction mode. Another call's copy may hold an entry for long. */
const SESSION = { prepare: false, sessions: false, maxConnections: 1, statementTimeoutMs: 60_000 }
