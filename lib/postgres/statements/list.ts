import { type ChangesStatements, defineChanges, definePage, JOINED, type PageStatement } from './changes.ts'

/** The statements of a list: a page's stored representations, joined into one string. */
export interface ListStatements extends ChangesStatements {
  /** The newest records. */
  readonly newest: PageStatement<object>
  /** The newest of the records with smaller ids. */
  readonly older: PageStatement<{ readonly before: string }>
}

/**
 * Builds the statements of a list.
 *
 * @param rows the records, with the columns that every record table has, if they are not the rows of the table
 */
export function defineList(table: string, rows: string = table): ListStatements {
  return {
    newest: definePage(pageOf(rows)),
    // In a subquery, because the id must not change the estimate either.
    older: definePage(pageOf(rows, 'id < (select @before::text)')),
    ...defineChanges(table, rows),
  }
}

function pageOf(rows: string, where = 'true'): string {
  // PostgreSQL plans a statement anew for every request as long as the bound values promise a cheaper plan, and planning takes
  // longer than the list. The subquery hides the limit from the estimate, and each hidden limit counts as a tenth: with two
  // limits the organization's number of records hardly counts either. The constant is the longest page; without the constant,
  // the estimate would begin with all records of the organization.
  // Every column passes through each step of the plan, and PostgreSQL prepares it there for every request: so only the columns of
  // the page are selected. The count is compared with the plain limit, because a comparison has no estimate to spoil.
  // Only a full page is followed by a query for a further record, a single descent of the primary key. Not with `exists`, which
  // drops the order, and with the order the certainty that the descent is of the primary key.
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
