import { type AdmissionStatements, defineAdmission } from './admission.ts'

/**
 * Builds the statements of a list: the judgement of the request, and the stored representations of the page joined to one
 * text.
 *
 * @param representation JSON text, made of a row of the table named `record`
 */
export function defineList(table: string, representation = 'record.representation'): AdmissionStatements {
  // PostgreSQL plans a statement anew for every request as long as the bound values promise a cheaper plan, and planning takes
  // longer than the list. The subquery hides the limit from the estimate. The constant is the longest page; without the
  // constant, the estimate would be a tenth of the table.
  return defineAdmission(`(
    select '[' || coalesce(pg_catalog.string_agg(newest.representation, ','), '') || ']'
    from (
      select ${representation} as representation
      from (
        select * from ${table}
        where organization_id = @organizationId::text
        order by id desc
        limit 200
      ) as record
      order by record.id desc
      limit (select @limit::int)
    ) as newest
  )`)
}
