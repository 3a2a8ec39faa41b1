import type { Fragment, ISql as Sql } from 'postgres'
import { snakeCase } from '../../resources/columns.ts'
import { ENDPOINT_CHOICES } from '../../webhooks/endpoint-choices.ts'
import { isoTimestamp } from './fragments.ts'

/** Builds the endpoint in a step's only row as a JSON string. Null if there's no row. */
export function one(sql: Sql, step: Fragment): Fragment {
  return sql`(select pg_catalog.row_to_json(item)::text from (select ${columns(sql)} from ${step}) as item)`
}

/**
 * Builds the first steps of a change: `locked` is the endpoint, and `before` adds `is_repeat`. Because of the lock, a
 * change that had to wait for another one sees its result.
 *
 * @param isRepeat the condition that an earlier attempt already made the same change
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

/** Builds the source `present`: the step's row or, if nothing changed, the current endpoint. */
export function orAsItIs(sql: Sql, step: 'changed' | 'moved'): Fragment {
  const changed = sql.unsafe(step)
  return sql`
    (select * from ${changed} union all select * from locked where not exists (select 1 from ${changed})) as present`
}

/** Builds the step that deletes an endpoint's rate. The endpoint is a row name or a subquery. */
export function forgetRate(sql: Sql, row: string): Fragment {
  return sql`
    forgotten as (
      delete from business_api.endpoint_rates rate using ${sql.unsafe(row)} as endpoint
      where rate.organization_id = endpoint.organization_id and rate.endpoint_id = endpoint.id
    )`
}

/** Builds the condition that a row is the given endpoint and hasn't been removed. */
export function isEndpoint(sql: Sql, organizationId: string, endpointId: string): Fragment {
  return sql`organization_id = ${organizationId}::text and id = ${endpointId}::text and state <> 'removed'`
}

/** The settings an organization can choose, as columns named like the fields. */
const CHOICES = ENDPOINT_CHOICES.map(({ name, field }) => `${name} as "${field}"`).join(', ')

/** Builds the endpoint columns that administrators can see. */
export function columns(sql: Sql): Fragment {
  return sql`
    id, ${sql.unsafe(CHOICES)}, version, header_names as "headerNames", state, disabled_reason as "disabledReason",
    ${isoTimestamp(sql, 'failing_since')} as "failingSince", failures,
    case when previous_secret_expires_at > now() then ${isoTimestamp(sql, 'previous_secret_expires_at')} end
      as "previousSecretExpiresAt",
    ${isoTimestamp(sql, 'created_at')} as "createdAt"`
}

const CHANGED = [...ENDPOINT_CHOICES.map(({ name }) => name), 'header_names', 'sealed_headers'].join(', ')

/** Builds assignments for the given columns (see {@link rowOf}) and increments the version if anything changes. */
export function assign(sql: Sql, row: string): Fragment {
  return sql`
    (${sql.unsafe(CHANGED)}, version) = (
      select ${sql.unsafe(CHANGED)}, endpoint.version + (given is distinct from endpoint)::int
      from pg_catalog.jsonb_populate_record(endpoint, ${row}::text::jsonb) as given
    )`
}

/** Builds an array with the names of fields that differ between `before` and `changed`. */
export function changedFields(sql: Sql): Fragment {
  const fields = [...ENDPOINT_CHOICES, { field: 'headers', name: 'sealed_headers' }].map(
    ({ field, name }) => `case when before.${name} is distinct from changed.${name} then '${field}' end`,
  )
  return sql`array_remove(array[${sql.unsafe(fields.join(', '))}], null)`
}

/** Serializes an endpoint's fields as JSON with column names. */
export function rowOf(fields: object): string {
  return JSON.stringify(
    Object.fromEntries(Object.entries(fields).map(([field, value]) => [snakeCase(field), value])),
  )
}
