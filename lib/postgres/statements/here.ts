import type { Fragment, ISql as Sql } from 'postgres'

// In its last column, every statement of an organization checks that the organization is on this database. If it has
// moved to another shard, the caller's map is stale, and the statement fails without writing anything. This takes no
// extra round trip and works for all statements and roles, behind poolers and in the host's transactions. It costs one
// index lookup, and the index is empty on a single server. PostgreSQL doesn't inline functions with a subquery, so this
// is a string and not an SQL function.

const BEFORE_ID = `case when (
  select place.is_here from business_api.shard_places place where place.organization_id = `
const BEFORE_REJECTION = ` order by place.version desc limit 1
) is false then business_api.reject_elsewhere(`
const BEFORE_ANSWER = ') else '
const END = ' end'

/** Builds an expression that returns `answer` if the organization, a text expression, is here, and fails otherwise. */
export function ifHere(organizationId: string, answer: string): string {
  return BEFORE_ID + organizationId + BEFORE_REJECTION + organizationId + BEFORE_ANSWER + answer + END
}

/** Like {@link ifHere}, but for statements built with the template. */
export function ifHereIn(sql: Sql, organizationId: string, answer: Fragment): Fragment {
  return sql`
    ${sql.unsafe(BEFORE_ID)}${organizationId}::text${sql.unsafe(BEFORE_REJECTION)}${organizationId}::text
    ${sql.unsafe(BEFORE_ANSWER)}${answer}${sql.unsafe(END)}`
}

/** Builds a condition for work across organizations that excludes rows of organizations that have moved away. */
export function isNotElsewhere(sql: Sql, table: string): Fragment {
  return sql`(
    select place.is_here from business_api.shard_places place
    where place.organization_id = ${sql(table)}.organization_id order by place.version desc limit 1
  ) is not false`
}
