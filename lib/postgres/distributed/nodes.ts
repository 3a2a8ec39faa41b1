import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import type { Database } from '../connection/database.ts'

/** The answers of the nodes that answered, and the time of the coordinator, in milliseconds since 1970. */
export interface NodeAnswers<Answer> {
  readonly answers: readonly Answer[]
  readonly time: number
}

/**
 * Calls a function of the schema on every node of the cluster that has rows: each answers for its own. A node that cannot be reached
 * is left out. So is a node that does not answer within a second, which costs that second once: its answer, when it comes, is one of
 * the next call's of the same function, and no call waits for the node until then.
 *
 * @param name the function, which returns JSON text
 * @param parameters the arguments
 * @throws `BusinessApiError` with code `store_unavailable` if no node answers
 */
export type LookAtNodes = <Answer>(
  name: string,
  parameters: readonly (string | number | null)[],
) => Promise<NodeAnswers<Answer>>

/** A question to a node. The outcome never rejects. */
interface Question {
  readonly outcome: Promise<Outcome>
  /** True if an earlier call has waited for the node in vain. */
  isLate: boolean
}

type Outcome = { readonly answer: string | null } | { readonly error: unknown }

/** How long a delivery loop waits for a node, in milliseconds. */
export const PATIENCE_MS = 1000

/** Creates the look at the nodes of a Citus cluster. */
export function createLookAtNodes(database: Database): LookAtNodes {
  const questions = new Map<string, Question>()
  /** Nodes, by function, that did not answer the last question. */
  const away = new Set<string>()

  /**
   * Reads the nodes with shards, and an organization of each: the node carries out what is asked for its organization. Any text is an
   * organization, and 20 texts for each shard miss no node.
   */
  async function readNodes(): Promise<{ nodes: readonly NodePlace[]; time: number }> {
    const [nodes, time] = await database.row(
      (sql, answerTag) => sql`
        with shard as (
          select s.shardid, s.shardminvalue::int as first, s.shardmaxvalue::int as last, p.nodename || ':' || p.nodeport as node
            from pg_catalog.pg_dist_shard s
            join pg_catalog.pg_dist_shard_placement p on p.shardid = s.shardid
           where s.logicalrelid = 'business_api.open_deliveries'::pg_catalog.regclass
        ), candidate as (
          select 'node ' || n as organization_id, pg_catalog.hashtext('node ' || n) as place
            from pg_catalog.generate_series(1, 20 * (select count(*) from shard)) as n
        ), node as (
          select s.node, min(c.organization_id) as organization_id
            from shard s join candidate c on c.place between s.first and s.last
           group by s.node
        )
        select
          (select pg_catalog.json_agg(pg_catalog.json_build_array(node, organization_id)) from node)::text,
          (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::text as time,
          ${answerTag}`,
    )
    return { nodes: JSON.parse(nodes ?? '[]') as readonly NodePlace[], time: Number(time) }
  }

  async function ask(organizationId: string, command: string): Promise<Outcome> {
    try {
      const [answer] = await database.row(
        (sql, answerTag) => sql`
          select answer, ${answerTag}
          from business_api.ask_shard(${organizationId}::text, ${command}::text, '[]'::text) as answer`,
      )
      return { answer: (JSON.parse(answer ?? '[]') as (string | null)[])[0] ?? null }
    } catch (error) {
      return { error }
    }
  }

  /** Returns undefined if the node has not answered in time. */
  async function hear(
    key: string,
    [, organizationId]: NodePlace,
    command: string,
  ): Promise<Outcome | undefined> {
    const question = questions.get(key) ?? { outcome: ask(organizationId, command), isLate: away.has(key) }
    questions.set(key, question)
    const outcome = await withDeadline(question.outcome, question.isLate ? 0 : PATIENCE_MS, () => undefined)
    if (!outcome) {
      question.isLate = true
      return undefined
    }
    questions.delete(key)
    if ('error' in outcome) away.add(key)
    else away.delete(key)
    return outcome
  }

  return async <Answer>(name: string, parameters: readonly (string | number | null)[]) => {
    const command = `select business_api.${name}(${parameters.map(toLiteral).join(', ')})`
    const { nodes, time } = await readNodes()
    const outcomes = await Promise.all(nodes.map((place) => hear(`${name} ${place[0]}`, place, command)))
    const answers: Answer[] = []
    const errors: unknown[] = []
    for (const outcome of outcomes) {
      if (outcome && 'error' in outcome) errors.push(outcome.error)
      else if (outcome) answers.push(JSON.parse(outcome.answer ?? 'null') as Answer)
    }
    if (answers.length === 0) throw errors[0] ?? storeUnavailable('Cannot reach any node of the cluster')
    return { answers, time }
  }
}

type NodePlace = readonly [node: string, organizationId: string]

/** Writes a value as a literal: the function's call is a statement without parameters. */
function toLiteral(value: string | number | null): string {
  if (value === null) return 'null'
  if (typeof value === 'number') return String(value)
  return value.includes('\\')
    ? `E'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
    : `'${value.replaceAll("'", "''")}'`
}
