import { type BatchStatement, defineBatch } from './statement.ts'

// Lists of changes. A transaction gets an id with its first write and may commit much later, so commit order differs from id order. But
// every transaction below the oldest id that is running (`floor`, the xmin of the snapshot) has ended, and the writes of the
// transaction are visible. So a pass notes the floor with the first page and goes on by (changed_xid, id). The next pass begins at the
// floor, because every write that was invisible at the first page has an id from the floor on. Records of a transaction that stays open
// are not shown before the commit; records that changed meanwhile come again with every pass.
//
// A pass from a time goes by (updated_at, id) instead. The pass over all records is a pass from a time.

/** The columns of a page: see `AdmittedPage` in lib/access/admission.ts. */
export type PageColumn = 'page' | 'next' | 'position'

/** A statement that reads pages for any number of requests. */
export type PageStatement<Values> = BatchStatement<
  Values & { readonly organizationId: string; readonly limit: number },
  PageColumn,
  'page'
>

/** Builds the statement of a page. @param listed a subquery that returns one row with a page's columns */
export function definePage<Values>(listed: string): PageStatement<Values> {
  return defineBatch({
    answer: { page: 'listed.page', next: 'listed.next', position: 'listed.position' },
    bytes: ['page'],
    from: `cross join lateral (${listed}) as listed`,
  })
}

/** The values of a page of changes by transaction. Ids of transactions are decimal numbers. */
export interface ChangesValues {
  readonly tableIdentity: string
  /** The record after which the page begins; with the empty id: the first record of the transaction. */
  readonly xid: string
  readonly id: string
  /** Null for the first page of a pass. */
  readonly floor: string | null
  /** The first transaction that the pass does not show; null for the first page of a pass. */
  readonly ceiling: string | null
}

/** The values of a page of changes by time. */
export interface TimesValues {
  readonly time: string
  readonly id: string
  /** Null for the first page of a pass. */
  readonly tableIdentity: string | null
  readonly floor: string | null
}

/**
 * The statements for a list of changes. In the results `next` is the position behind the page, null for the last page, and `position`
 * the start of the next pass, null if the given position belongs to another table, for example after a restore.
 */
export interface ChangesStatements {
  readonly changes: PageStatement<ChangesValues>
  readonly times: PageStatement<TimesValues>
}

/** The representations of the rows named `record`, joined into a JSON array. */
export const JOINED = `'[' || coalesce(pg_catalog.string_agg(record.representation, ','), '') || ']'`

/**
 * Builds the statements for a list of changes.
 *
 * @param rows the records, with the columns that every record table has
 */
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
        // In a restored database records may have ids of transactions that are still to come.
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
  /** Further columns of the row `snapshot`. */
  readonly snapshot: string
  /** A condition: the position is of this table. */
  readonly isSameTable: string
  /** The column before the id in the order of the pass. */
  readonly key: string
  /** The value after which the page begins. Hidden in a subquery, so no value promises a cheaper plan. */
  readonly after: string
  /** A condition, by the row's name with a dot: the row belongs to the pass. */
  readonly below: (row: string) => string
  /** The position behind the last record. */
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
