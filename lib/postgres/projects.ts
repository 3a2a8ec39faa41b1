import type { ProjectStore } from '../projects.ts'
import { admitToPage, newest } from './admission.ts'
import { claim, create, outcomeColumns } from './creation.ts'
import type { Database } from './database.ts'

/** Projects in PostgreSQL. */
export function createProjectStore(database: Database): ProjectStore {
  return {
    list(request, limit) {
      return admitToPage(
        database,
        request,
        (sql) => sql`
          select
            project.id, project.name, project.status,
            project.billing_type as "billingType",
            trim_scale(project.value) as "value"
          from ${newest(sql, 'business_api.projects')} as project
          order by project.id desc
          limit ${limit}::int`,
      )
    },

    create(creation) {
      const { organizationId, record } = creation
      return create(
        database,
        creation,
        (sql, mark) => sql`
          with ${claim(sql, creation, record.id)},
          project as (
            insert into business_api.projects (organization_id, id, name, status, billing_type, value)
            select
              ${organizationId}::text, ${record.id}::text, ${record.name}::text, ${record.status}::text,
              ${record.billingType}::text, ${String(record.value)}::text::numeric
            from claim
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, ${mark}`,
      )
    },
  }
}
