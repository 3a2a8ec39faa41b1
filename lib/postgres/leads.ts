import type { LeadRecord, LeadStore } from '../resources/leads.ts'
import type { Creation } from '../writes/creation.ts'
import { declareOneStep } from '../writes/one-step.ts'
import type { Admissions } from './admission.ts'
import {
  type ClientValues,
  clientColumns,
  clientRepresentation,
  clientValues,
  newClientRow,
  withBusiness,
} from './clients.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineAdmittedWrite } from './statements/admitted-write.ts'
import { defineChange, isAllowed, orBefore, setOf, writeChange } from './statements/change.ts'
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
import { getRecord, isOneOf, listRecords, type RecordTable, withUpdatedAt } from './statements/read.ts'
import { writeCreation } from './statements/write.ts'

const TABLE = 'business_api.leads'

const LIST = defineList(TABLE)

const RECORD: RecordTable = {
  table: TABLE,
  representation: withUpdatedAt(`
    pg_catalog.left(record.representation, -1)
    || ',"businessId":' || pg_catalog.to_json(record.business_id)::text || '}'`),
}

interface LeadValues {
  readonly leadId: string
  readonly businessId: string
  readonly stage: string
  readonly leadScore: string | null
  readonly scoreBand: string | null
  readonly expectedValue: string | null
  readonly createdAt: string
}

type NewLeadValues = CreationValues & LeadValues

const CREATE_PARTS = (reserve: Reserve): WriteParts<'hasBusiness'> => ({
  steps: [
    `business as (
      select id from business_api.businesses
      where organization_id = @organizationId::text and id = @businessId::text
    )`,
    reserve({ condition: 'exists (select 1 from business)' }),
    `lead as (
      insert into business_api.leads
        (organization_id, id, business_id, stage, lead_score, score_band, expected_value, created_at)
      select
        @organizationId::text, @leadId::text, @businessId::text, @stage::text, @leadScore::text::numeric,
        @scoreBand::text, @expectedValue::text::numeric, @createdAt::text::timestamptz
      from reserved
      on conflict (organization_id, id) do nothing
      returning 1 as one
    )`,
    published('lead'),
  ],
  answer: { hasBusiness: '(select exists (select 1 from business))::text' },
})
const CREATE = defineWrite<NewLeadValues, 'hasBusiness'>(CREATE_PARTS)
const ADMIT_AND_CREATE = defineAdmittedWrite<NewLeadValues, 'hasBusiness'>(CREATE_PARTS)

const REPRESENTATION = `business_api.lead_representation(
  after.id, after.stage, after.lead_score, after.score_band, after.expected_value, after.created_at
)`

const FACTS = `pg_catalog.json_build_object('businessId', before.business_id, 'previousStage', before.stage)`

/** The events of a change of a lead's stage. */
const EVENTS_OF_NEW_STAGE = `
  case when before.stage is distinct from after.stage then @events::text::jsonb else '[]' end`

const CHANGE = defineChange<{ readonly set: string }>({
  table: TABLE,
  state: 'stage',
  after: [
    `after as (
      select
        before.organization_id, before.id, before.business_id, before.expected_value, before.created_at,
        ${orBefore('stage')},
        ${orBefore('lead_score', 'leadScore', 'numeric(15, 3)')},
        ${orBefore('score_band', 'scoreBand')}
      from before
      where ${isAllowed('stage')}
    )`,
  ],
  representation: REPRESENTATION,
  set: 'stage = after.stage, lead_score = after.lead_score, score_band = after.score_band',
  events: EVENTS_OF_NEW_STAGE,
  facts: FACTS,
})

const CONVERT = defineChange<{ readonly set: string; readonly clientEvents: string } & ClientValues>({
  table: TABLE,
  state: 'stage',
  after: [
    `after as (
      select
        before.organization_id, before.id, before.business_id, before.lead_score, before.score_band,
        before.expected_value, before.created_at, ${orBefore('stage')}
      from before
      where ${isAllowed('stage')}
    )`,
    `known as (
      select ${clientColumns('client.')}
        from after
        join business_api.clients client
          on client.organization_id = @organizationId::text and client.business_id = after.business_id
    )`,
    `made as (
      select ${newClientRow('after.organization_id', 'after.business_id')}
        from after
       where not exists (select 1 from known)
    )`,
    'client as (select * from known union all select * from made)',
  ],
  representation: `
    '{"lead":' || ${REPRESENTATION}
    || ',"client":' || ${withBusiness(clientRepresentation('client'), 'client')} || '}'`,
  from: 'after, client',
  set: 'stage = after.stage',
  alongside: {
    name: 'made_client',
    step: `
      select case
        when made.id is not null then business_api.insert_converted_client(
          @organizationId::text, made.id, made.business_id, made.status, made.total_revenue, made.monthly_revenue,
          made.converted_at
        )
      end
      from reserved left join made on true`,
  },
  events: `${EVENTS_OF_NEW_STAGE}
    || case when exists (select 1 from made) then @clientEvents::text::jsonb else '[]' end`,
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
    admitAndList: (request, asked) => admissions.admitToPage(request, LIST, asked),
    create,
    change: (given) => writeChange(database, given, CHANGE, { set: setOf({ ...given.set }) }),

    list: (organizationId, { stages, businessId }, limit, before) =>
      listRecords(database, RECORD, organizationId, (sql) => ({
        limit,
        before,
        ...(businessId === undefined
          ? { ranges: stages && { column: 'stage', values: stages } }
          : {
              ranges: { column: 'business_id', values: [businessId] },
              conditions: isOneOf(sql, 'stage', stages),
            }),
      })),

    get: (organizationId, id) => getRecord(database, RECORD, organizationId, id),

    convert(given) {
      const { stage, client, clientEvents } = given.set
      return writeChange(database, given, CONVERT, {
        set: setOf({ stage }),
        clientEvents: eventsOf(clientEvents),
        ...clientValues(client),
      })
    },
  }
}

function newLeadValues(creation: Creation<LeadRecord>): NewLeadValues {
  const { lead, businessId } = creation.record
  return Object.assign(creationValues(creation, lead.id), {
    leadId: lead.id,
    businessId,
    stage: lead.stage,
    leadScore: nullableNumber(lead.leadScore),
    scoreBand: lead.scoreBand,
    expectedValue: nullableNumber(lead.expectedValue),
    createdAt: lead.createdAt,
  })
}

function refuseUnknownBusiness({ hasBusiness }: { readonly hasBusiness: string | null }) {
  return hasBusiness === 'false' ? { outcome: 'no_business' as const } : undefined
}

function nullableNumber(value: number | null): string | null {
  return value === null ? null : String(value)
}
