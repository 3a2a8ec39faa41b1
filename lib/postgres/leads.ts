import type { Fragment, ISql as Sql } from 'postgres'
import type { LeadStore } from '../resources/leads.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { clientColumns, clientRepresentation, newClientRow, withBusiness } from './clients.ts'
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
import { begin, jsonOf, outcomeColumns } from './statements/key-reservation.ts'
import { admitToPage, defineList } from './statements/list.ts'
import { writeCreation } from './statements/write.ts'

const TABLE = 'business_api.leads'

const REPRESENTATION = `business_api.lead_representation(
  after.id, after.stage, after.lead_score, after.score_band, after.expected_value, after.created_at
)`

const CONVERTED_REPRESENTATION = `
  '{"lead":' || ${REPRESENTATION} || ',"client":' || ${withBusiness(clientRepresentation('client'), 'client')} || '}'`

const LIST = defineList(TABLE)

/** Creates the slice of leads in PostgreSQL. */
export function createLeadStore(database: RecordDatabase): LeadStore {
  return {
    admitAndList: (request, limit) => admitToPage(database, LIST, request, limit),

    create(creation) {
      const { organizationId, record } = creation
      const { lead, businessId } = record
      return writeCreation(
        database,
        creation,
        (sql, answerTag) => sql`
          with business as (
            select id from business_api.businesses
            where organization_id = ${organizationId}::text and id = ${businessId}::text
          ),
          ${begin(sql, creation, lead.id, sql`exists (select 1 from business)`)},
          lead as (
            insert into business_api.leads
              (organization_id, id, business_id, stage, lead_score, score_band, expected_value, created_at)
            select
              ${organizationId}::text, ${lead.id}::text, ${businessId}::text, ${lead.stage}::text,
              ${nullableNumber(lead.leadScore)}::text::numeric, ${lead.scoreBand}::text,
              ${nullableNumber(lead.expectedValue)}::text::numeric, ${lead.createdAt}::text::timestamptz
            from reserved
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, (select count(*) from business)::text, ${answerTag}`,
        ([, , businesses]) => (businesses === '0' ? { outcome: 'no_business' as const } : undefined),
      )
    },

    change(given) {
      const { set, events } = given
      return writeChange(
        database,
        given,
        (sql, answerTag) => sql`
          with ${before(sql, given, TABLE)},
          after as (
            select
              before.organization_id, before.id, before.business_id, before.expected_value, before.created_at,
              ${orBefore(sql, set.stage, 'stage')},
              ${orBefore(sql, set.leadScore, 'lead_score', 'numeric(15, 3)')},
              ${orBefore(sql, set.scoreBand, 'score_band')}
            from before
            where ${isAllowed(sql, given, 'stage')}
          ),
          ${represented(sql, REPRESENTATION)},
          ${reservedFor(sql, given)},
          written as (
            update business_api.leads lead
               set stage = after.stage, lead_score = after.lead_score, score_band = after.score_band,
                   ${withThisChange(sql, given)}
              from before, after, reserved
             where lead.organization_id = after.organization_id and lead.id = after.id and not before.is_repeat
          ),
          ${publishedOf(sql, given, { chosen: ofNewStage(sql, events), facts: leadFacts(sql) })}
          select ${changeColumns(sql, 'stage')}, ${answerTag}`,
      )
    },

    convert(given) {
      const { set, events } = given
      const { client } = set
      return writeChange(
        database,
        given,
        (sql, answerTag) => sql`
          with ${before(sql, given, TABLE)},
          after as (
            select
              before.organization_id, before.id, before.business_id, before.lead_score, before.score_band,
              before.expected_value, before.created_at, ${orBefore(sql, set.stage, 'stage')}
            from before
            where ${isAllowed(sql, given, 'stage')}
          ),
          known as (
            select ${clientColumns(sql, 'client.')}
              from after
              join business_api.clients client
                on client.organization_id = after.organization_id and client.business_id = after.business_id
          ),
          made as (
            select ${newClientRow(sql, client, sql`after.organization_id`, sql`after.business_id`)}
              from after
             where not exists (select 1 from known)
          ),
          client as (select * from known union all select * from made),
          ${represented(sql, CONVERTED_REPRESENTATION, 'after, client')},
          ${reservedFor(sql, given)},
          written as (
            update business_api.leads lead
               set stage = after.stage, ${withThisChange(sql, given)}
              from before, after, reserved
             where lead.organization_id = after.organization_id and lead.id = after.id and not before.is_repeat
          ),
          made_client as (
            insert into business_api.clients (${clientColumns(sql)})
            select made.* from made, reserved
          ),
          ${publishedOf(sql, given, {
            chosen: sql`
              ${ofNewStage(sql, events)}
              || case when exists (select 1 from made) then ${jsonOf(sql, set.clientEvents)} else '[]' end`,
            facts: leadFacts(sql),
          })}
          select ${changeColumns(sql, 'stage')}, ${answerTag}`,
      )
    },
  }
}

/** Builds the events of a change: none if the stage stays the same. */
function ofNewStage(sql: Sql, events: readonly EventRecord[]): Fragment {
  return sql`case when before.stage is distinct from after.stage then ${jsonOf(sql, events)} else '[]' end`
}

function leadFacts(sql: Sql): Fragment {
  return sql`json_build_object('businessId', before.business_id, 'previousStage', before.stage)`
}

function nullableNumber(value: number | null): string | null {
  return value === null ? null : String(value)
}
