import { businessTable } from '../resources/businesses.ts'
import { clientTable } from '../resources/clients.ts'
import { columnsOf } from '../resources/columns.ts'
import { type LeadRecord, type LeadStore, leadTable } from '../resources/leads.ts'
import type { Creation } from '../writes/creation.ts'
import { declareOneStep } from '../writes/one-step.ts'
import type { Admissions } from './admission.ts'
import { representClient } from './clients.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineAdmittedWrite } from './statements/admitted-write.ts'
import { CHANGED_NOW, defineChange, isAllowed, setOf, writeChange } from './statements/change.ts'
import {
  afterChange,
  assign,
  type ColumnValues,
  given,
  insertInto,
  namesOf,
  represent,
  valuesOf,
} from './statements/columns.ts'
import {
  type CreationValues,
  creationValues,
  defineWrite,
  eventsOf,
  published,
  type Reserve,
  type WriteParts,
} from './statements/key-reservation.ts'
import { defineList } from './statements/list.ts'
import { type RecordRows, readSlice, withUpdatedAt } from './statements/read.ts'
import { writeCreation } from './statements/write.ts'

const TABLE = 'business_api.leads'
const COLUMNS = columnsOf(leadTable)
const CLIENT_COLUMNS = columnsOf(clientTable)

const LIST = defineList(TABLE)

const RECORD: RecordRows = {
  rows: TABLE,
  representation: withUpdatedAt(`
    pg_catalog.left(record.representation, -1)
    || ',"businessId":' || pg_catalog.to_json(record.business_id)::text || '}'`),
}

type NewLeadValues = CreationValues & ColumnValues

const CREATE_PARTS = (reserve: Reserve): WriteParts<'hasBusiness'> => ({
  steps: [
    `business as (
      select id from business_api.businesses
      where organization_id = @organizationId::text and id = @business_id::text
    )`,
    reserve({ condition: 'exists (select 1 from business)' }),
    `lead as (${insertInto('leads', COLUMNS, 'reserved')})`,
    published('lead'),
  ],
  answer: { hasBusiness: '(select exists (select 1 from business))::text' },
})
const CREATE = defineWrite<NewLeadValues, 'hasBusiness'>(CREATE_PARTS)
const ADMIT_AND_CREATE = defineAdmittedWrite<NewLeadValues, 'hasBusiness'>(CREATE_PARTS)

const AFTER = `after as (select ${afterChange(COLUMNS)} from before where ${isAllowed('stage')})`

const FACTS = `pg_catalog.json_build_object('businessId', before.business_id, 'previousStage', before.stage)`

/** The events of a change of a lead's stage. */
const EVENTS_OF_NEW_STAGE = `
  case when before.stage is distinct from after.stage then @events::text::jsonb else '[]' end`

const CHANGE = defineChange<{ readonly set: string }>({
  table: TABLE,
  state: 'stage',
  after: [AFTER],
  representation: represent(leadTable, 'after'),
  set: assign(COLUMNS),
  events: EVENTS_OF_NEW_STAGE,
  facts: FACTS,
})

const CONVERT = defineChange<{ readonly set: string; readonly clientEvents: string } & ColumnValues>({
  table: TABLE,
  state: 'stage',
  after: [
    AFTER,
    // Locked, so that the row is what the latest change of the business and another conversion have left.
    `business as (
      select * from business_api.businesses
      where organization_id = @organizationId::text and id = (select business_id from after)
      for no key update
    )`,
    `client as (
      select ${namesOf(columnsOf(businessTable))}, client_id is null as is_made,
        ${CLIENT_COLUMNS.map((column) => `case when client_id is null then ${given(column)} else ${column.name} end as ${column.name}`).join(', ')}
      from business
    )`,
  ],
  representation: `
    '{"lead":' || ${represent(leadTable, 'after')} || ',"client":' || ${representClient('client', 'client')} || '}'`,
  from: 'after, client',
  set: assign(COLUMNS),
  alongside: `
    update business_api.businesses record
       set ${CLIENT_COLUMNS.map(({ name }) => `${name} = client.${name}`).join(', ')}, ${CHANGED_NOW}
      from client, reserved
     where record.organization_id = @organizationId::text and record.id = client.id and client.is_made`,
  events: `${EVENTS_OF_NEW_STAGE}
    || case when (select is_made from client) then @clientEvents::text::jsonb else '[]' end`,
  facts: FACTS,
})

/** Leads in PostgreSQL. */
export function createLeadStore(database: RecordDatabase, admissions: Admissions): LeadStore {
  const create: LeadStore['create'] = (creation) =>
    writeCreation(database, creation, CREATE, newLeadValues(creation), { refused: refuseUnknownBusiness })

  declareOneStep<LeadRecord>(admissions, create, (request, creation) =>
    admissions.admitAndWrite(request, (values, judge) =>
      writeCreation(database, creation, ADMIT_AND_CREATE, Object.assign(newLeadValues(creation), values), {
        judge,
        refused: refuseUnknownBusiness,
      }),
    ),
  )

  return {
    ...readSlice(database, admissions, {
      list: LIST,
      record: RECORD,
      wants: ({ stages, businessId }) => ({ states: { column: 'stage', values: stages }, businessId }),
    }),
    create,
    change: (given) => writeChange(database, given, CHANGE, { set: setOf({ ...given.set }) }),

    convert(given) {
      const { stage, client, clientEvents } = given.set
      return writeChange(database, given, CONVERT, {
        set: setOf({ stage }),
        clientEvents: eventsOf(clientEvents),
        ...valuesOf(CLIENT_COLUMNS, client),
      })
    },
  }
}

function newLeadValues(creation: Creation<LeadRecord>): NewLeadValues {
  const { lead, businessId } = creation.record
  return Object.assign(creationValues(creation, lead.id), valuesOf(COLUMNS, { ...lead, businessId }))
}

function refuseUnknownBusiness({ hasBusiness }: { readonly hasBusiness: string | null }) {
  return hasBusiness === 'false' ? { outcome: 'no_business' as const } : undefined
}
