import type { ProjectStore } from '../resources/projects.ts'
import type { RecordDatabase } from './connection/database.ts'
import {
  before,
  changeColumns,
  isAllowed,
  orBefore,
  publishedOf,
  represented,
  reservedFor,
  withThisChange,
  writeChange,
} from './statements/change.ts'
import { begin, outcomeColumns } from './statements/key-reservation.ts'
import { admitToPage, defineList } from './statements/list.ts'
import { writeCreation } from './statements/write.ts'

const REPRESENTATION =
  'business_api.project_representation(after.id, after.name, after.status, after.billing_type, after.value)'

const LIST = defineList('business_api.projects')

/** Creates the slice of projects in PostgreSQL. */
export function createProjectStore(database: RecordDatabase): ProjectStore {
  return {
    admitAndList: (request, limit) => admitToPage(database, LIST, request, limit),

    create(creation) {
      const { organizationId, record } = creation
      return writeCreation(
        database,
        creation,
        (sql, answerTag) => sql`
          with ${begin(sql, creation, record.id)},
          project as (
            insert into business_api.projects (organization_id, id, name, status, billing_type, value)
            select
              ${organizationId}::text, ${record.id}::text, ${record.name}::text, ${record.status}::text,
              ${record.billingType}::text, ${String(record.value)}::text::numeric
            from reserved
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, ${answerTag}`,
      )
    },

    change(given) {
      const { set } = given
      return writeChange(
        database,
        given,
        (sql, answerTag) => sql`
          with ${before(sql, given, 'business_api.projects')},
          after as (
            select
              before.organization_id, before.id, before.name, before.billing_type, before.value,
              ${orBefore(sql, set.status, 'status')}
            from before
            where ${isAllowed(sql, given, 'status')}
          ),
          ${represented(sql, REPRESENTATION)},
          ${reservedFor(sql, given)},
          written as (
            update business_api.projects project
               set status = after.status, ${withThisChange(sql, given)}
              from before, after, reserved
             where project.organization_id = after.organization_id and project.id = after.id and not before.is_repeat
          ),
          ${publishedOf(sql, given)}
          select ${changeColumns(sql, 'status')}, ${answerTag}`,
      )
    },
  }
}
