import { type BatchStatement, defineBatch } from './statement.ts'

// Lists of changes. A transaction gets its ID with its first write but may commit much later, so IDs aren't in commit
// order. However, every transaction below the oldest running ID (`floor`, the snapshot's xmin) has ended, so its writes
// are visible. A pass remembers the floor of its first page and then continues by (changed_xid, id). The next pass
// starts at that floor, because any write that wasn't visible to the first page has an ID at or above it. A long
// transaction's records don't show up until it commits, and records changed in the meantime are repeated in every pass.
// A pass that starts at a time goes by (updated_at, id) instead, including a pass over all records.

/** The columns of a page. See `AdmittedPage` in lib/access/admission.ts. */
export type PageColumn = 'page' | 'next' | 'position'

/** A statement that reads pages for any number of requests. */
export type PageStatement<Values> = BatchStatement<
  Values & { readonly organizationId: string; readonly limit: number },
  PageColumn,
  'page'
>

/** Builds a page's statement. @param listed a subquery that returns one row with the page's columns */
export function definePage<Values>(listed: string): PageStatement<Values> {
  return defineBatch({
    answer: { page: 'listed.page', next: 'listed.next', position: 'listed.position' },
    bytes: ['page'],
    from: `cross join lateral (${listed}) as listed`,
  })
}

/** Values for a page of changes by transaction. Transaction IDs are decimal numbers. */
export interface ChangesValues {
  readonly tableIdentity: string
  /** The page starts after this record, or with the transaction's first record if `id` is empty. */
  readonly xid: string
  readonly id: string
  /** `null` for the first page of a pass. */
  readonly floor: string | null
  /** The first transaction that isn't part of the pass. `null` for the first page. */
  readonly ceiling: string | null
}

/** Values for a page of changes by time. */
export interface TimesValues {
  readonly time: string
  readonly id: string
  /** `null` for the first page of a pass. */
  readonly tableIdentity: string | null
  readonly floor: string | null
}

/**
 * Statements for a list of changes. In their results, `next` is where the next page starts, or `null` on the last page.
 * `position` is where the next pass starts, or `null` if the given position belongs to another table, for example after
 * a restore.
 */
export interface ChangesStatements {
  readonly changes: PageStatement<ChangesValues>
  readonly times: PageStatement<TimesValues>
}

/** The representations of all rows named `record`, joined into a JSON array. */
export const JOINED = `'[' || coalesce(pg_catalog.string_agg(record.representation, ','), '') || ']'`

/** Builds the statements for a list of changes. `rows` has the columns that all record tables have. */
export function defineChanges(table: string, rows: string): ChangesStatements {
  return {
    changes: definePage(
      pageOf({
        table,
        rows,
        snapshot: `
          coalesce((select @floor::text::xid8), pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())) as floor,
          coalesce((select @ceiling::text::xid8), pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())) as ceiling`,
        isSameTable: 'snapshot.table_identity = @tableIdentity::text',
        key: 'changed_xid',
        after: '(select @xid::text::xid8)',
        // In a restored database, records may have transaction IDs that are still in the future.
        below: (row) => `${row}changed_xid < snapshot.ceiling`,
        continued: `
          'c ' || snapshot.table_identity || ' ' || joined.last_key || ' ' || snapshot.floor || ' ' || snapshot.ceiling
            || ' ' || joined.last_id`,
      }),
    ),
    times: definePage(
      pageOf({
        table,
        rows,
        snapshot: `
          coalesce((select @floor::text::xid8), pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())) as floor`,
        isSameTable: '(@tableIdentity::text is null or snapshot.table_identity = @tableIdentity::text)',
        key: 'updated_at',
        after: '(select @time::text::timestamptz)',
        below: () => 'true',
        continued: `
          't ' || snapshot.table_identity
            || ' ' || pg_catalog.to_char(joined.last_key at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
            || ' ' || snapshot.floor || ' ' || joined.last_id`,
      }),
    ),
  }
}

interface PageParts {
  readonly table: string
  readonly rows: string
  /** Additional columns for the row `snapshot`. */
  readonly snapshot: string
  /** Condition that the position belongs to this table. */
  readonly isSameTable: string
  /** The sort column before the ID. */
  readonly key: string
  /**
   * The page starts after this value, in a subquery so that PostgreSQL doesn't expect a cheaper plan for a known value.
   */
  readonly after: string
  /** Builds the condition that a row is part of the pass, given the row's name and a dot. */
  readonly below: (row: string) => string
  /** The position after the last record. */
  readonly continued: string
}

function pageOf(parts: PageParts): string {
  const { table, rows, snapshot, isSameTable, key, after, below, continued } = parts
  return `
    select
      joined.page,
      case
        when joined.count = (select @limit::int) and (
          select further.id from ${rows} further
          where further.organization_id = @organizationId::text
            and (further.${key}, further.id) > (joined.last_key, joined.last_id) and ${below('further.')}
          order by further.${key}, further.id
          limit 1
        ) is not null then ${continued}
      end as next,
      case when ${isSameTable} then 'c ' || snapshot.table_identity || ' ' || snapshot.floor || ' - - ' end as position
    from (select business_api.table_identity('${table}') as table_identity, ${snapshot}) as snapshot
    cross join lateral (
      select
        ${JOINED} as page, pg_catalog.count(*) as count,
        (pg_catalog.array_agg(record.${key}))[pg_catalog.count(*)::int] as last_key,
        (pg_catalog.array_agg(record.id))[pg_catalog.count(*)::int] as last_id
      from (
        select * from (
          select id, ${key}, representation from ${rows} all_records
          where organization_id = @organizationId::text and (${key}, id) > (${after}, (select @id::text))
            and ${below('')} and ${isSameTable}
          order by ${key}, id
          limit 200
        ) as longest
        order by longest.${key}, longest.id
        limit (select @limit::int)
      ) as record
    ) as joined`
}
