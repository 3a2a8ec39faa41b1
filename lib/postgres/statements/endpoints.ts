import type { Fragment, ISql as Sql } from 'postgres'
import { isoTimestamp } from './fragments.ts'

// The parts of statements about webhook endpoints.

/** The one row of a step, as it is shown; null if there is none. */
export function one(sql: Sql, step: Fragment): Fragment {
  return sql`(select pg_catalog.row_to_json(item)::text from (select ${columns(sql)} from ${step}) as item)`
}

/**
 * The first steps of a change: `locked`, the endpoint, without which one that has waited for another would still see what
 * was before that; and `before`, with `is_repeat`.
 *
 * @param isRepeat whether this very change has been made already
 */
export function before(sql: Sql, organizationId: string, endpointId: string, isRepeat: Fragment): Fragment {
  return sql`
    locked as (
      select * from business_api.webhook_endpoints
      where ${isEndpoint(sql, organizationId, endpointId)}
      for no key update
    ),
    before as (select locked.*, ${isRepeat} as is_repeat from locked)`
}

/** What a step has changed, or the endpoint as it is if it has changed nothing. */
export function orAsItIs(sql: Sql, step: 'changed' | 'moved'): Fragment {
  const changed = sql.unsafe(step)
  return sql`
    (select * from ${changed} union all select * from locked where not exists (select 1 from ${changed})) as present`
}

/** The condition that a row is the endpoint, and not removed. */
export function isEndpoint(sql: Sql, organizationId: string, endpointId: string): Fragment {
  return sql`organization_id = ${organizationId}::text and id = ${endpointId}::text and state <> 'removed'`
}

/** The columns of a shown endpoint. */
export function columns(sql: Sql): Fragment {
  return sql`
    id, url, description, types, header_names as "headerNames", state, disabled_reason as "disabledReason",
    ${isoTimestamp(sql, 'failing_since')} as "failingSince", failures,
    case when previous_secret_expires_at > now() then ${isoTimestamp(sql, 'previous_secret_expires_at')} end
      as "previousSecretExpiresAt",
    ${isoTimestamp(sql, 'created_at')} as "createdAt"`
}
