import type { Database } from '../connection/database.ts'
import type { NodePlace } from './nodes.ts'

/** The nodes of a cluster with rows of the schema. */
export interface NodePlaces {
  readonly places: readonly NodePlace[]
  /** The number of nodes with no known organization, which get no statement. */
  readonly unknown: number
  /** The time of the coordinator, in milliseconds since 1970. */
  readonly time: number
}

/** A node, by name, as the catalogue of the cluster has it. */
interface ShardNode {
  readonly node: string
  /** A text whose shard is on the node. Null if all shards of the node are too narrow for a made-up text. */
  readonly organizationId: string | null
  /** The first hashes of the node's shards, if there is no such text. */
  readonly hashes: readonly number[] | null
}

/** Milliseconds until the shards without a known organization are looked at again. */
const LOOK_AGAIN_MS = 10_000

/** Creates a reader of the nodes with shards, each with an organization: a call for the organization is carried out by the node. */
export function createNodePlacesReader(database: Database): () => Promise<NodePlaces> {
  /** The organizations of shards of a single organization, by the shard's hash. Null for a shard without a webhook endpoint. */
  const owners = new Map<number, string | null>()
  let lookedAt = Number.NEGATIVE_INFINITY

  /**
   * Looks for organizations with the hashes. All nodes take part, and a silent one delays the look: so nobody waits for the look, and
   * the next reader of the places finds the organizations.
   */
  async function look(hashes: readonly number[]): Promise<void> {
    if (performance.now() - lookedAt < LOOK_AGAIN_MS) return
    lookedAt = performance.now()
    const [found] = await database.row(
      (sql, answerTag) => sql`
        with owner as (
          select pg_catalog.hashtext(organization_id) as hash, min(organization_id) as organization_id
            from business_api.webhook_endpoints
           where pg_catalog.hashtext(organization_id) = any(${`{${hashes}}`}::text::int[])
           group by 1
        )
        select coalesce(pg_catalog.json_object_agg(hash, organization_id), '{}')::text, ${answerTag} from owner`,
    )
    const organizations = JSON.parse(found ?? '{}') as Readonly<Record<string, string>>
    for (const hash of hashes) owners.set(hash, organizations[hash] ?? null)
  }

  function organizationOf({ organizationId, hashes }: ShardNode): string | null | undefined {
    if (organizationId !== null || hashes === null) return organizationId
    const known = hashes.map((hash) => owners.get(hash))
    const owner = known.find((one) => typeof one === 'string')
    if (owner !== undefined) return owner
    void look(hashes).catch(() => undefined)
    return known.includes(undefined) ? undefined : null
  }

  return async () => {
    // Any text is an organization, and 20 texts for each shard miss no node but one with nothing but shards of a single organization.
    const [rows, time] = await database.row(
      (sql, answerTag) => sql`
        with shard as (
          select s.shardminvalue::int as first, s.shardmaxvalue::int as last, p.nodename || ':' || p.nodeport as node
            from pg_catalog.pg_dist_shard s
            join pg_catalog.pg_dist_shard_placement p on p.shardid = s.shardid
           where s.logicalrelid = 'business_api.open_deliveries'::pg_catalog.regclass
        ), candidate as (
          select 'node ' || n as organization_id, pg_catalog.hashtext('node ' || n) as place
            from pg_catalog.generate_series(1, 20 * (select count(*) from shard)) as n
        ), node as (
          select s.node, min(c.organization_id) as organization_id,
                 case when count(c.organization_id) = 0 then pg_catalog.json_agg(s.first) end as hashes
            from shard s left join candidate c on c.place between s.first and s.last
           group by s.node
        )
        select
          (select pg_catalog.json_agg(
             pg_catalog.json_build_object('node', node, 'organizationId', organization_id, 'hashes', hashes)
           ) from node)::text,
          (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::text as time,
          ${answerTag}`,
    )
    const places: NodePlace[] = []
    let unknown = 0
    for (const row of JSON.parse(rows ?? '[]') as readonly ShardNode[]) {
      const organizationId = organizationOf(row)
      if (typeof organizationId === 'string') places.push({ node: row.node, organizationId })
      else if (organizationId === undefined) unknown++
    }
    return { places, unknown, time: Number(time) }
  }
}
