import type { Sql } from 'postgres'
import { readText } from './lock-watch.ts'

// The distribution of the tables over the nodes of a Citus cluster. Everything of one organization stands in one shard, because every
// table is distributed by organization_id, together with all other tables. A reference table has a copy on every node: the tables with
// rows for the whole database (organization_id is '' by default), and API keys, because a request finds a key by the digest.

/**
 * Selects the tables except partitions. Tables with fewer foreign keys come first, so that a table comes after the tables that the
 * table refers to. A shard of an unlogged table could only be moved while writers wait.
 */
export const TABLES = `
  select relation.relname as name,
         not exists (
           select 1 from pg_catalog.pg_attribute a
            where a.attrelid = relation.oid and a.attname = 'organization_id' and not a.attisdropped
              and not exists (
                select 1 from pg_catalog.pg_attrdef d
                 where d.adrelid = a.attrelid and d.adnum = a.attnum
                   and pg_catalog.pg_get_expr(d.adbin, d.adrelid) like '''''::%'
              )
         ) or exists (
           select 1 from pg_catalog.pg_index i
            where i.indrelid = relation.oid and i.indisunique and not exists (
              select 1 from pg_catalog.pg_attribute a
               where a.attrelid = relation.oid and a.attname = 'organization_id' and a.attnum = any (i.indkey)
            )
         ) as is_everywhere,
         relation.relpersistence = 'u' as is_unlogged
    from pg_catalog.pg_class relation
   where relation.relnamespace = 'business_api'::pg_catalog.regnamespace
     and relation.relkind in ('r', 'p') and not relation.relispartition
   order by (
     select pg_catalog.count(*) from pg_catalog.pg_constraint c where c.conrelid = relation.oid and c.contype = 'f'
   ), relation.relname`

/**
 * Functions of one organization, the first argument. The organization's node carries out the whole function. A statement that
 * calls such a function does nothing else.
 */
const FUNCTIONS_OF_AN_ORGANIZATION: readonly string[] = [
  'ask_shard',
  'ask_shard_in_transaction',
  'claim_organization',
  'notice_secrets_of',
  'read_claims_of',
  'reclaim_leases_of',
  'release_claim_of',
  'release_claims_of',
  'write_results_of',
]

/**
 * The statement that distributes the tables that are not distributed, all or nothing. A second run changes nothing.
 *
 * The functions that delivery loops call have generic plans on one server. Citus finds the shard from the value of a parameter, and so
 * plans each call. A function of a statement that one node carries out reads that node's own shards: nested statements are allowed.
 */
const DISTRIBUTION = `do $distribution$
declare
  entry record;
  placed text[] := '{}';
  anchor text;
begin
  if not exists (select 1 from pg_catalog.pg_extension where extname = 'citus') then
    raise exception 'Cannot distribute the tables because this database has no extension citus'
      using errcode = 'feature_not_supported',
            hint = 'Create the extension on every node, add the nodes with citus_add_node, and try again.';
  end if;
  if not exists (select 1 from pg_catalog.pg_dist_node where isactive and shouldhaveshards) then
    raise exception 'Cannot distribute the tables because no node of the cluster may hold shards'
      using errcode = 'feature_not_supported', hint = 'Add the nodes with citus_add_node, and try again.';
  end if;
  set local citus.multi_shard_modify_mode = 'sequential';

  for entry in
    ${TABLES}
  loop
    if exists (
      select 1 from pg_catalog.pg_dist_partition
       where logicalrelid = ('business_api.' || entry.name)::pg_catalog.regclass
    ) then
      if not entry.is_everywhere then
        anchor := coalesce(anchor, 'business_api.' || entry.name);
      end if;
      continue;
    end if;
    if entry.is_unlogged then
      execute pg_catalog.format('alter table business_api.%I set logged', entry.name);
    end if;
    if entry.is_everywhere then
      perform pg_catalog.create_reference_table(('business_api.' || entry.name)::pg_catalog.regclass);
    else
      perform pg_catalog.create_distributed_table(
        ('business_api.' || entry.name)::pg_catalog.regclass, 'organization_id', colocate_with => coalesce(anchor, 'none')
      );
      anchor := coalesce(anchor, 'business_api.' || entry.name);
    end if;
    placed := placed || entry.name;
  end loop;

  for entry in
    select p.oid::pg_catalog.regprocedure as signature, p.proconfig,
           o.objid is not null as is_everywhere, o.distribution_argument_index is not null as is_placed,
           p.proname in (${FUNCTIONS_OF_AN_ORGANIZATION.map((name) => `'${name}'`).join(', ')}) as is_of_organization,
           p.proname = 'ask_shard_in_transaction' as is_of_transaction
      from pg_catalog.pg_proc p
      left join pg_catalog.pg_dist_object o
        on o.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and o.objid = p.oid
     where p.pronamespace = 'business_api'::pg_catalog.regnamespace
     order by p.oid
  loop
    if entry.is_of_organization and not entry.is_placed then
      perform pg_catalog.create_distributed_function(
        entry.signature, 'organization_id', colocate_with => anchor, force_delegation => entry.is_of_transaction
      );
    elsif not entry.is_everywhere then
      perform pg_catalog.create_distributed_function(entry.signature);
    end if;
    if 'plan_cache_mode=force_generic_plan' = any (entry.proconfig) then
      execute pg_catalog.format('alter function %s set plan_cache_mode = force_custom_plan', entry.signature);
    end if;
    if not coalesce('citus.allow_nested_distributed_execution=on' = any (entry.proconfig), false) then
      execute pg_catalog.format('alter function %s set citus.allow_nested_distributed_execution = on', entry.signature);
    end if;
  end loop;
end $distribution$`

/**
 * Distributes the tables of the schema over the nodes of a Citus cluster, in one transaction. Tables with rows are moved while other
 * sessions wait. A repeated call distributes the tables that were added since.
 *
 * @returns the names of the tables that this call has distributed
 * @throws Error with the remedy if the database has no extension citus, or no node may hold shards
 */
export async function distribute(sql: Sql): Promise<string[]> {
  try {
    return (await sql.begin(async (tx) => {
      await tx.unsafe(
        "set local statement_timeout = 0; set local client_min_messages = error; set local search_path = ''",
      )
      const before = await readPlaced(tx)
      await tx.unsafe(DISTRIBUTION)
      return (await readPlaced(tx)).filter((name) => !before.includes(name))
    })) as string[]
  } catch (error) {
    throw explain(error)
  }
}

/** Returns whether a table of the schema is distributed: then every table ought to be. */
export async function isDistributed(sql: Sql): Promise<boolean> {
  return (await readPlaced(sql)).length > 0
}

/** Writes the distribution as a part of a script for psql: see `writeMigrationScript`. */
export function writeDistributionScript(): string {
  return `-- the distribution\n\nbegin;\nset local statement_timeout = 0;\nset local client_min_messages = error;\nset local search_path = '';\n${DISTRIBUTION};\ncommit;\n`
}

async function readPlaced(sql: Pick<Sql, 'unsafe'>): Promise<string[]> {
  const [[catalogue] = []] = await readText(sql, "select to_regclass('pg_catalog.pg_dist_partition')::text")
  if (catalogue == null) return []
  const tables = await readText(
    sql,
    `select c.relname::text from pg_catalog.pg_dist_partition p
       join pg_catalog.pg_class c on c.oid = p.logicalrelid::oid
      where c.relnamespace = pg_catalog.to_regnamespace('business_api') and not c.relispartition
      order by c.relname`,
  )
  return tables.map(([name]) => String(name))
}

const FEATURE_NOT_SUPPORTED = '0A000'

/** Returns an error with the remedy for a database that is no cluster; else the error unchanged. */
function explain(error: unknown): unknown {
  const { code, message, hint } = (error instanceof Error ? error : {}) as Record<string, unknown>
  if (code !== FEATURE_NOT_SUPPORTED || !String(message).startsWith('Cannot distribute ')) return error
  return new Error(`${message}. ${hint}`, { cause: error })
}
