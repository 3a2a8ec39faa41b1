import { type ChangesStatements, defineChanges, definePage, JOINED, type PageStatement } from './changes.ts'

/** A list's statements. A page is one string of joined representations. */
export interface ListStatements extends ChangesStatements {
  /** Selects the latest records. */
  readonly newest: PageStatement<object>
  /** Selects the latest records with lower IDs. */
  readonly older: PageStatement<{ readonly before: string }>
}

/** Builds a list's statements. `rows` has the columns that all record tables have. */
export function defineList(table: string, rows: string = table): ListStatements {
  return {
    newest: definePage(pageOf(rows)),
    // A subquery keeps the ID from affecting the estimate.
    older: definePage(pageOf(rows, 'id < (select @before::text)')),
    ...defineChanges(table, rows),
  }
}

function pageOf(rows: string, where = 'true'): string {
  // If PostgreSQL expects a cheaper plan for the bound values, it replans the statement for every request, which takes
  // longer than the list itself. The subquery hides the limit from the planner, which then assumes a tenth of the rows.
  // With two limits, even the organization's record count hardly matters. The constant is the maximum page size,
  // without which the estimate would start with all of the organization's records. Only a page's columns are selected,
  // because PostgreSQL has to set up every column in each step of the plan for every request. The comparison with the
  // count isn't estimated, so it uses the plain limit. A full page takes one more primary key lookup for the next
  // record. We don't use `exists` for that because it drops the order, without which PostgreSQL might not use the
  // primary key.
  return `
    select joined.page, null::text as position, case
      when joined.count = @limit::int and (
        select further.id from ${rows} further
        where further.organization_id = @organizationId::text and further.id < joined.last_id
        order by further.id desc
        limit 1
      ) is not null then joined.last_id
    end as next
    from (
      select
        ${JOINED} as page, pg_catalog.count(*) as count, pg_catalog.min(record.id) as last_id
      from (
        select * from (
          select id, representation from ${rows} all_records
          where organization_id = @organizationId::text and ${where}
          order by id desc
          limit 200
        ) as longest
        order by longest.id desc
        limit (select @limit::int)
      ) as record
    ) as joined`
}
