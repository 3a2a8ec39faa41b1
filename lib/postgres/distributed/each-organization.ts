import type { ISql } from 'postgres'
import { isStoreUnavailable, storeUnavailable } from '../../base/errors.ts'
import type { Database } from '../connection/database.ts'
import type { Statement } from '../connection/pool.ts'
import { type NodePlace, type Nodes, PATIENCE_MS, type SendOptions, SLOW_PATIENCE_MS } from './nodes.ts'

/** Items of an organization. */
export interface OwnItems<Item> {
  readonly organizationId: string
  readonly own: readonly Item[]
}

/** Groups items by organization, in the given order. */
export function groupByOrganization<Item extends { readonly organizationId: string }>(
  items: readonly Item[],
): readonly OwnItems<Item>[] {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const own = groups.get(item.organizationId)
    if (own) own.push(item)
    else groups.set(item.organizationId, [item])
  }
  return Array.from(groups, ([organizationId, own]) => ({ organizationId, own }))
}

/** An item with the answer of the node. */
export interface Answered<Item, Answer> {
  readonly item: Item
  readonly answer: Answer
}

/** The outcome for all items. Each part is in the given order. */
export interface Outcome<Item, Answer> {
  readonly answered: readonly Answered<Item, Answer>[]
  /** Items without an answer. The node may have carried the statement out. */
  readonly missed: readonly Item[]
  /** The first error among the items without an answer. Undefined if every item has an answer. */
  readonly error: unknown
}

/**
 * Calls a function of one organization for each item, on the organization's node, and reads the JSON answer. An organization on a node
 * that does not answer is missed, and delays the call by a second. An organization with a long statement, because of locked rows for
 * example, is missed too: calls of the next five seconds leave the organization out, and later calls wait twice as long, up to five
 * seconds.
 *
 * @param build the call of the function, of the item
 * @throws the first error that is not `store_unavailable`
 */
export type ForEachOrganization = <Item extends { readonly organizationId: string }, Answer>(
  items: readonly Item[],
  build: (item: Item, sql: ISql) => Statement,
  options?: Pick<SendOptions, 'isOnce'>,
) => Promise<Outcome<Item, Answer>>

/** Milliseconds for which an organization is left out after a statement without an answer from a node that answers pings. */
const LEFT_OUT_MS = 5000

/** An organization after a statement without an answer. Forgotten after a minute. */
interface Late {
  /** Until when the organization is left out, on the monotonic clock. */
  readonly until: number
  /** Milliseconds for the next answer. */
  readonly answerMs: number
}

const FORGET_MS = 60_000

/** Creates the function that calls a function for several organizations. */
export function createForEachOrganization(database: Database, nodes: Nodes): ForEachOrganization {
  const late = new Map<string, Late>()

  async function readPlaces(organizations: readonly string[]): Promise<readonly NodePlace[]> {
    const [places] = await database.row(
      (sql, answerTag) => sql`
        -- Materialized: otherwise the shard is computed for each pair of an organization and a placement.
        with organization as materialized (
          select o.id, o.place, pg_catalog.get_shard_id_for_distribution_column('business_api.open_deliveries', o.id) as shard
            from pg_catalog.json_array_elements_text(${JSON.stringify(organizations)}::text::json) with ordinality as o (id, place)
        )
        select
          pg_catalog.json_agg(
            pg_catalog.json_build_object('node', coalesce(p.nodename || ':' || p.nodeport, ''), 'organizationId', o.id) order by o.place
          )::text,
          ${answerTag}
        from organization o
        left join pg_catalog.pg_dist_shard_placement p on p.shardid = o.shard`,
    )
    return JSON.parse(places ?? '[]') as readonly NodePlace[]
  }

  function isLeftOut(organizationId: string): boolean {
    return performance.now() < (late.get(organizationId)?.until ?? 0)
  }

  function leaveOut(organizationId: string): void {
    const now = performance.now()
    const answerMs = Math.min(SLOW_PATIENCE_MS, 2 * (late.get(organizationId)?.answerMs ?? PATIENCE_MS))
    for (const [id, { until }] of late) if (until < now - FORGET_MS) late.delete(id)
    late.set(organizationId, { until: now + LEFT_OUT_MS, answerMs })
  }

  async function call<Answer>(
    place: NodePlace,
    build: (sql: ISql) => Statement,
    isOnce: boolean | undefined,
  ): Promise<Answer> {
    const { organizationId } = place
    const answerMs = late.get(organizationId)?.answerMs
    let sentAt = Number.POSITIVE_INFINITY
    try {
      const [answer] = await nodes.send(
        place,
        (sql, answerTag) => {
          sentAt = performance.now()
          // With nothing else in the statement, the coordinator sends the whole statement to the organization's node.
          return sql`select answer::text, ${answerTag} from ${build(sql)} as answer`
        },
        { answerMs, isOnce },
      )
      late.delete(organizationId)
      return JSON.parse(answer ?? 'null') as Answer
    } catch (error) {
      const isLate = performance.now() - sentAt > PATIENCE_MS / 2
      if (isLate && !nodes.isSilent(place.node)) leaveOut(organizationId)
      throw error
    }
  }

  return async <Item extends { readonly organizationId: string }, Answer>(
    items: readonly Item[],
    build: (item: Item, sql: ISql) => Statement,
    { isOnce }: Pick<SendOptions, 'isOnce'> = {},
  ) => {
    const asked = items.filter(({ organizationId }) => !isLeftOut(organizationId))
    const missed = new Set(items)
    const answered: Answered<Item, Answer>[] = []
    const places = asked.length > 0 ? await readPlaces(asked.map(({ organizationId }) => organizationId)) : []
    const settled = await Promise.allSettled(
      asked.map((item, at) => call<Answer>(places[at] as NodePlace, (sql) => build(item, sql), isOnce)),
    )
    const errors: unknown[] = []
    for (const [at, one] of settled.entries()) {
      const item = asked[at] as Item
      if (one.status === 'rejected') errors.push(one.reason)
      else if (missed.delete(item)) answered.push({ item, answer: one.value })
    }
    const refusal = errors.find((error) => !isStoreUnavailable(error))
    if (refusal !== undefined) throw refusal
    return {
      answered,
      missed: [...missed],
      error: missed.size > 0 ? (errors[0] ?? leftOutError()) : undefined,
    }
  }
}

function leftOutError(): Error {
  return storeUnavailable('Cannot reach the organization: its last statement had no answer')
}
