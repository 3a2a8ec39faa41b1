import type { Fragment, ISql as Sql } from 'postgres'
import type { AuditEntry, AuditRecord, AuditStore } from '../access/audit.ts'
import type { Database } from './connection/database.ts'
import { isoTimestamp } from './statements/fragments.ts'

/** Creates the slice of audit entries in PostgreSQL. */
export function createAuditStore(database: Database): AuditStore {
  return {
    async list(organizationId, { subjectId }, limit, before) {
      const [entries] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select coalesce(pg_catalog.json_agg(item), '[]')::text, ${answerTag} from (
            select
              id, ${isoTimestamp(sql, 'changed_at')} as at, actor, action, subject_id as "subjectId", details
            from business_api.audit_entries
            where organization_id = ${organizationId}::text
              ${subjectId === undefined ? sql`` : sql`and subject_id = ${subjectId}::text`}
              ${before === null ? sql`` : sql`and id < ${before}::text`}
            order by id desc
            limit ${limit}::int
          ) as item`,
      )
      return JSON.parse(entries ?? '[]') as AuditEntry[]
    },

    async record(organizationId, entry, { perSecond, burst }) {
      // GCRA, like business_api.admit: a bucket is stored as the time at which the bucket will be full again.
      const [isIn] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          with present as (
            select ${isRecorded(sql, organizationId, entry)} as is_recorded, extract(epoch from clock_timestamp()) as at
          ), taken as (
            insert into business_api.rate_buckets as bucket (organization_id, bucket, full_at)
            select ${organizationId}::text, 'tests', at + 1 / ${perSecond}::float8 from present where not is_recorded
            on conflict (organization_id, bucket) do update
            set full_at = greatest(bucket.full_at, excluded.full_at - 1 / ${perSecond}::float8) + 1 / ${perSecond}::float8
            where greatest(bucket.full_at, excluded.full_at - 1 / ${perSecond}::float8) + 1 / ${perSecond}::float8
              - excluded.full_at <= (${burst}::int - 1) / ${perSecond}::float8 + 0.00001
            returning 1
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`taken`)}
          )
          select (is_recorded or exists (select 1 from taken))::text, ${answerTag} from present`,
      )
      return isIn === 'true'
    },
  }
}

/**
 * Builds the step that records an entry if the step of the change has a row.
 *
 * @param change the text after `from`: the step of the change, with at most one row
 * @param details further details from the change, as `jsonb`, added to the details of the entry
 */
export function recordEntry(
  sql: Sql,
  organizationId: string,
  entry: AuditRecord,
  change: Fragment,
  details: Fragment = sql`'{}'`,
): Fragment {
  return sql`
    ${insertEntry(sql, organizationId, entry, change, details)}
    on conflict (organization_id, id) do nothing`
}

/**
 * Builds the step that records one entry for several statements: see {@link recordEntry}.
 *
 * @param counted the text after `from`: one row with `recovered`; the numbers of all statements are added up
 */
export function countInEntry(
  sql: Sql,
  organizationId: string,
  entry: AuditRecord,
  counted: Fragment,
): Fragment {
  return sql`
    ${insertEntry(sql, organizationId, entry, counted, sql`pg_catalog.jsonb_build_object('recovered', recovered)`)}
    on conflict (organization_id, id) do update set
      details = audit_entries.details || pg_catalog.jsonb_build_object(
        'recovered', (audit_entries.details ->> 'recovered')::int + (excluded.details ->> 'recovered')::int
      )`
}

/**
 * Builds the condition that an earlier try, with an answer that was lost, has made the change of this entry. The condition
 * belongs in a step after the lock on the changed row, because the earlier try may end while the statement waits for the lock.
 */
export function isRecorded(sql: Sql, organizationId: string, { id }: AuditRecord): Fragment {
  return sql`business_api.is_recorded(${organizationId}::text, ${id}::text)`
}

/** Builds the condition that a subject has an entry of a change with this id; to be used in a step like {@link isRecorded}. */
export function isChangeMade(
  sql: Sql,
  organizationId: string,
  subjectId: string,
  changeId: string,
): Fragment {
  return sql`business_api.is_change_made(${organizationId}::text, ${subjectId}::text, ${changeId}::text)`
}

function insertEntry(
  sql: Sql,
  organizationId: string,
  { id, actor, action, subjectId, details }: AuditRecord,
  change: Fragment,
  added: Fragment,
): Fragment {
  return sql`
    insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
    select
      ${organizationId}::text, ${id}::text, clock_timestamp(), ${actor}::text, ${action}::text, ${subjectId}::text,
      ${JSON.stringify(details)}::text::jsonb || ${added}
    from ${change}`
}
