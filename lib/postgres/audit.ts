import type { Fragment, ISql as Sql } from 'postgres'
import { AUDIT_ID_MARGIN_MS, type AuditFilter, type AuditRecord, type AuditStore } from '../access/audit.ts'
import { idPrefixAt } from '../base/ids.ts'
import type { Database } from './connection/database.ts'
import { isoTimestamp } from './statements/fragments.ts'
import { callFor, jsonFor, listOf } from './statements/statement.ts'

/** Creates the PostgreSQL store for audit entries. */
export function createAuditStore(database: Database): AuditStore {
  return {
    list: (organizationId, filter, limit, before) =>
      jsonFor(database, organizationId, (sql) => {
        const entries = sql`
          select id, ${isoTimestamp(sql, 'changed_at')} as at, actor, action, subject_id as "subjectId", details
          from business_api.audit_entries
          where organization_id = ${organizationId}::text
            ${matchFilter(sql, filter)}
            ${before === null ? sql`` : sql`and id < ${before}::text`}
          order by id desc
          limit ${limit}::int`
        return listOf(sql, entries)
      }),

    async recordTest(organizationId, entry, { max, windowMs }) {
      const call = 'record_test(text, jsonb, int, float8)'
      return callFor(database, organizationId, call, organizationId, JSON.stringify(entry), max, windowMs)
    },
  }
}

/** Builds a filter's conditions. A period is also expressed as ID bounds, since IDs are in every index. */
function matchFilter(sql: Sql, { subjectId, action, actor, since, until }: AuditFilter): Fragment {
  const [first, last] = [
    since === undefined ? null : idPrefixAt('aud', Date.parse(since) - AUDIT_ID_MARGIN_MS),
    until === undefined ? null : idPrefixAt('aud', Date.parse(until) + AUDIT_ID_MARGIN_MS),
  ]
  return sql`
    ${subjectId === undefined ? sql`` : sql`and subject_id = ${subjectId}::text`}
    ${action === undefined ? sql`` : sql`and action = ${action}::text`}
    ${actor === undefined ? sql`` : sql`and actor = ${actor}::text`}
    ${since === undefined ? sql`` : sql`and changed_at >= ${since}::text::timestamptz and id >= ${first}::text`}
    ${until === undefined ? sql`` : sql`and changed_at < ${until}::text::timestamptz and id < ${last}::text`}`
}

/**
 * Builds the step that records an audit entry if the change returned a row. This is a no-op if an earlier attempt has
 * already recorded the entry.
 *
 * @param change the `from` clause, which returns the changed row if there was a change
 * @param details `jsonb` merged into the entry's details
 */
export function recordEntry(
  sql: Sql,
  organizationId: string,
  entry: AuditRecord,
  change: Fragment,
  details: Fragment = sql`'{}'`,
): Fragment {
  return sql`
    insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
    select
      ${organizationId}::text, ${entry.id}::text, pg_catalog.clock_timestamp(), ${entry.actor}::text,
      ${entry.action}::text, ${entry.subjectId}::text, ${JSON.stringify(entry.details)}::text::jsonb || ${details}
    from ${change}
    on conflict (organization_id, id) do nothing`
}

/**
 * Builds the condition that an earlier attempt, whose result was lost, has already made this change. Only use this in a
 * step after locking the row, because the earlier attempt may commit while we wait for the lock.
 */
export function isRecorded(sql: Sql, organizationId: string, { id }: AuditRecord): Fragment {
  return sql`business_api.is_recorded(${organizationId}::text, ${id}::text)`
}

/** Builds the condition that a subject has an entry with this change ID. See {@link isRecorded}. */
export function isChangeMade(
  sql: Sql,
  organizationId: string,
  subjectId: string,
  changeId: string,
): Fragment {
  return sql`business_api.is_change_made(${organizationId}::text, ${subjectId}::text, ${changeId}::text)`
}
