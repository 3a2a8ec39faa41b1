import type { Fragment, ISql as Sql } from 'postgres'

// The last column of a statement of an organization checks that the database answers for the organization. Otherwise the statement fails,
// and writes nothing: the organization has moved to another shard, and the caller's map is stale. So the check takes no round trip, and
// holds for every statement and role, behind poolers and in transactions of the host. One index descent; the index is empty on a single
// server. A text, because PostgreSQL inlines no function with a subquery.

const BEFORE_ID = `case when (
  select place.is_here from business_api.shard_places place where place.organization_id = `
const BEFORE_REJECTION = ` order by place.version desc limit 1
) is false then business_api.reject_elsewhere(`
const BEFORE_ANSWER = ') else '
const END = ' end'

/** Builds the answer of a statement, if the database answers for the organization: see above. @param organizationId of type text */
export function ifHere(organizationId: string, answer: string): string {
  return BEFORE_ID + organizationId + BEFORE_REJECTION + organizationId + BEFORE_ANSWER + answer + END
}

/** Does the same as {@link ifHere} with the template. */
export function ifHereIn(sql: Sql, organizationId: string, answer: Fragment): Fragment {
  return sql`
    ${sql.unsafe(BEFORE_ID)}${organizationId}::text${sql.unsafe(BEFORE_REJECTION)}${organizationId}::text
    ${sql.unsafe(BEFORE_ANSWER)}${answer}${sql.unsafe(END)}`
}

/** Builds the condition of work for all organizations: leaves out the rows of a table that an organization has left behind when it moved. */
export function isNotElsewhere(sql: Sql, table: string): Fragment {
  return sql`(
    select place.is_here from business_api.shard_places place
    where place.organization_id = ${sql(table)}.organization_id order by place.version desc limit 1
  ) is not false`
}
