import type { ProjectStore } from '../resources/projects.ts'
import type { Admissions } from './admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineChange, isAllowed, orBefore, setOf, writeChange } from './statements/change.ts'
import { type CreationValues, creationValues, defineWrite, published } from './statements/key-reservation.ts'
import { defineList } from './statements/list.ts'
import { getRecord, listRecords, type RecordRows, withUpdatedAt } from './statements/read.ts'
import { writeCreation } from './statements/write.ts'

const TABLE = 'business_api.projects'

const LIST = defineList(TABLE)

const RECORD: RecordRows = { rows: TABLE, representation: withUpdatedAt('record.representation') }

interface ProjectValues {
  readonly name: string
  readonly status: string
  readonly billingType: string
  readonly value: string
}

const CREATE = defineWrite<CreationValues & ProjectValues>((reserve) => ({
  steps: [
    reserve(),
    `project as (
      insert into business_api.projects (organization_id, id, name, status, billing_type, value)
      select
        @organizationId::text, @writeId::text, @name::text, @status::text, @billingType::text, @value::text::numeric
      from reserved
      on conflict (organization_id, id) do nothing
      returning 1 as one
    )`,
    published('project'),
  ],
  answer: {},
}))

const CHANGE = defineChange<{ readonly set: string }>({
  table: TABLE,
  state: 'status',
  after: [
    `after as (
      select
        before.organization_id, before.id, before.name, before.billing_type, before.value, ${orBefore('status')}
      from before
      where ${isAllowed('status')}
    )`,
  ],
  representation:
    'business_api.project_representation(after.id, after.name, after.status, after.billing_type, after.value)',
  set: 'status = after.status',
})

/** Projects in PostgreSQL. */
export function createProjectStore(database: RecordDatabase, admissions: Admissions): ProjectStore {
  return {
    admitAndList: (request, asked) => admissions.admitToPage(request, LIST, asked),

    create(creation) {
      const { id, name, status, billingType, value } = creation.record
      const values = { ...creationValues(creation, id), name, status, billingType, value: String(value) }
      return writeCreation(database, creation, CREATE, values)
    },

    change: (given) => writeChange(database, given, CHANGE, { set: setOf({ ...given.set }) }),

    list: (organizationId, { statuses }, limit, before) =>
      listRecords(database, RECORD, organizationId, () => ({
        limit,
        before,
        ranges: statuses && { column: 'status', values: statuses },
      })),

    get: (organizationId, id) => getRecord(database, RECORD, organizationId, id),
  }
}
