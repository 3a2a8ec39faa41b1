import { type ChangesStatements, defineChanges, definePage, JOINED, type PageStatement } from './changes.ts'

/** The statements of a list. A page is one string of joined representations. */
export interface ListStatements extends ChangesStatements {
  /** Selects the latest records. */
  readonly newest: PageStatement<object>
  /** Selects the latest records with smaller IDs. */
  readonly older: PageStatement<{ readonly before: string }>
}

/**
 * Builds the statements of a list.
 *
 * @param rows the records, with the columns that all record tables have. Defaults to the table's rows
 */
export function defineList(table: string, rows: string = table): ListStatements {
  return {
    newest: definePage(pageOf(rows)),
    // In a subquery, so the ID doesn't affect the estimate either.
    older: definePage(pageOf(rows, 'id < (select @before::text)')),
    ...defineChanges(table, rows),
  }
}

function pageOf(rows: string, where = 'true'): string {
  // If PostgreSQL expects that the bound values allow a cheaper plan, it plans the statement again for every request,
  // which takes longer than the list itself. The subquery hides the limit from the planner, which then assumes a tenth
  // of the rows. With two limits, even the number of the organization's records hardly matters. The constant is the
  // maximum page size. Without it, the estimate would start with all of the organization's records. We only select the
  // columns of a page because PostgreSQL has to set up every column in each step of the plan for every request. The
  // comparison with the count uses the plain limit because it isn't estimated. We only look for one more record if the
  // page is full, which takes a single lookup in the primary key. We don't use `exists` for that because it drops the
  // order, and without the order PostgreSQL might not use the primary key.
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
