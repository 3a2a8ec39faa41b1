import { businessTable } from '../resources/businesses.ts'
import { clientTable } from '../resources/clients.ts'
import { columnsOf } from '../resources/columns.ts'
import { type LeadStore, leadTable } from '../resources/leads.ts'
import type { Admissions } from './admission/admission.ts'
import { representClient } from './clients.ts'
import type { RecordDatabase } from './connection/database.ts'
import {
  afterIfAllowed,
  CHANGED_NOW,
  changeVerb,
  defineChange,
  setOf,
  writeChange,
} from './statements/change.ts'
import { type ColumnValues, given, namesOf, represent, valuesOf } from './statements/columns.ts'
import { createVerb, defineCreation } from './statements/creation.ts'
import { eventsOf, unlessGoneOn } from './statements/key-reservation.ts'
import { defineReads, readSlice } from './statements/read.ts'

const COLUMNS = columnsOf(leadTable)
const CLIENT_COLUMNS = columnsOf(clientTable)

const READS = defineReads(leadTable, {
  representation: `
    pg_catalog.left(record.representation, -1)
    || ',"businessId":' || pg_catalog.to_json(record.business_id)::text || '}'`,
})

const HAS_BUSINESS = `((
  select true from business_api.businesses business
  where business.organization_id = @organizationId::text and business.id = @business_id::text
) is not null)`

const CREATE = defineCreation('leads', COLUMNS, HAS_BUSINESS, { hasBusiness: unlessGoneOn(HAS_BUSINESS) })

const FACTS = `pg_catalog.json_build_object('businessId', before.business_id, 'previousStage', before.stage)`

const EVENTS_OF_NEW_STAGE = `
  case when before.stage is distinct from after.stage then @events::text::jsonb else '[]' end`

const CHANGE = defineChange<{ readonly set: string }>({
  of: leadTable,
  state: 'stage',
  events: EVENTS_OF_NEW_STAGE,
  facts: FACTS,
})

const CONVERT = defineChange<{ readonly set: string; readonly clientEvents: string } & ColumnValues>({
  of: leadTable,
  state: 'stage',
  after: [
    afterIfAllowed(leadTable, 'stage'),
    // Lock the business to see its latest change and any concurrent conversion.
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
  alongside: [
    `converted as (
      update business_api.businesses record
         set ${CLIENT_COLUMNS.map(({ name }) => `${name} = client.${name}`).join(', ')}, ${CHANGED_NOW}
        from client, reserved
       where record.organization_id = @organizationId::text and record.id = client.id and client.is_made
    )`,
  ],
  events: `${EVENTS_OF_NEW_STAGE}
    || case when (select is_made from client) then @clientEvents::text::jsonb else '[]' end`,
  facts: FACTS,
})

/** Creates the PostgreSQL store for leads. */
export function createLeadStore(database: RecordDatabase, admissions: Admissions): LeadStore {
  return {
    ...readSlice(database, admissions, READS, ({ stages, businessId }) => ({
      states: { column: 'stage', values: stages },
      businessId,
    })),
    create: createVerb(database, {
      statements: CREATE,
      limits: admissions.limits,
      refused: ({ hasBusiness }) =>
        hasBusiness === 'false' ? { outcome: 'no_business' as const } : undefined,
    }),
    change: changeVerb(database, CHANGE),

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
