import type { Sql } from 'postgres'

/** Publishes a number of events, like a host does in any language. */
export async function publish(
  sql: Sql,
  organizationId: string,
  count = 1,
  type = 'project.completed',
): Promise<void> {
  await sql`
    select business_api.publish_event(${organizationId}, ${type}, '{"name":"Écume"}')
    from generate_series(1, ${count})`
}
