import { setImmediate } from 'node:timers/promises'
import type { ISql } from 'postgres'
import { isStoreUnavailable, storeUnavailable } from '../../base/errors.ts'
import type { Database } from '../connection/database.ts'
import type { Statement } from '../connection/pool.ts'
import type { NodePlace, Nodes } from './nodes.ts'
import { textOfHash } from './text-of-hash.ts'

/** The answers of the nodes that answered. */
export interface NodeAnswers<Answer> {
  readonly answers: readonly Answer[]
  /** True if a node did not answer. */
  readonly isPartial: boolean
  /** The time of the coordinator at the return, in milliseconds since 1970. */
  readonly time: number
}

/**
 * Asks every node of the cluster with rows of the schema for an answer about these. A node that cannot be reached, or is late, is
 * left out.
 *
 * @param build the call of a function of the schema that returns JSON text
 * @param answerMs milliseconds for an answer. Default: as for other statements of the loops
 * @throws `BusinessApiError` with code `store_unavailable` if no node answers; the error of a node that refuses the call
 */
export type AskNodes = <Answer>(
  build: (sql: ISql) => Statement,
  answerMs?: number,
) => Promise<NodeAnswers<Answer>>

/** Creates the question to the nodes of a cluster. */
export function createAskNodes(database: Database, nodes: Nodes): AskNodes {
  /** For the least hash of each node, a text with that hash. Moves of shards change the hashes; at most one for each shard. */
  const texts = new Map<number, string>()

  async function textOf(hash: number): Promise<string> {
    const known = texts.get(hash)
    if (known !== undefined) return known
    const text = textOfHash(hash)
    texts.set(hash, text)
    // The next text takes as long again: requests come in between.
    await setImmediate()
    return text
  }

  /** Reads the nodes with shards, and for each node an organization: a call for the organization is carried out by the node. */
  async function readPlaces(): Promise<{ places: readonly NodePlace[]; time: number; readAt: number }> {
    const [nodes, time] = await database.row(
      (sql, answerTag) => sql`
        with node as (
          select p.nodename || ':' || p.nodeport as node, min(s.shardminvalue::int) as hash
            from pg_catalog.pg_dist_shard s
            join pg_catalog.pg_dist_shard_placement p on p.shardid = s.shardid
           where s.logicalrelid = 'business_api.open_deliveries'::pg_catalog.regclass
           group by 1
        )
        select
          (select pg_catalog.json_agg(pg_catalog.json_build_object('node', node, 'hash', hash)) from node)::text,
          (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::text as time,
          ${answerTag}`,
    )
    const readAt = performance.now()
    const places: NodePlace[] = []
    for (const { node, hash } of JSON.parse(nodes ?? '[]') as readonly { node: string; hash: number }[]) {
      places.push({ node, organizationId: await textOf(hash) })
    }
    return { places, time: Number(time), readAt }
  }

  async function ask<Answer>(
    place: NodePlace,
    build: (sql: ISql) => Statement,
    answerMs: number | undefined,
  ): Promise<Answer> {
    const [answer] = await nodes.send(
      place,
      (sql, answerTag) => sql`select ${build(sql)}::text as answer, ${answerTag}`,
      { share: place.organizationId, answerMs },
    )
    return JSON.parse(answer ?? 'null') as Answer
  }

  return async <Answer>(build: (sql: ISql) => Statement, answerMs?: number) => {
    const { places, time, readAt } = await readPlaces()
    const settled = await Promise.allSettled(places.map((place) => ask<Answer>(place, build, answerMs)))
    const answers = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const errors = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []))
    const refusal = errors.find((error) => !isStoreUnavailable(error))
    if (refusal !== undefined) throw refusal
    if (answers.length === 0) throw errors[0] ?? storeUnavailable('Cannot reach any node of the cluster')
    return { answers, isPartial: errors.length > 0, time: time + (performance.now() - readAt) }
  }
}
