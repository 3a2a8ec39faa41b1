import type { Fragment, ISql as Sql } from 'postgres'
import type { OrganizationStore, PartResult } from '../access/organizations.ts'
import { BusinessApiError, MISSING_PRIVILEGE } from '../base/errors.ts'
import { businessTable } from '../resources/businesses.ts'
import { columnsOf, forgotten, type RecordTable } from '../resources/columns.ts'
import { TYPES_WITHOUT_BUSINESS } from '../resources/event-catalogue.ts'
import { proposalTable } from '../resources/proposals.ts'
import { RECORD_KINDS, RECORD_TABLES } from '../resources/records.ts'
import type { BuildStatement, Database, TextRow } from './connection/database.ts'
import { grantFor } from './schema/grants.ts'
import { CHANGED_NOW } from './statements/change.ts'
import { textArray } from './statements/fragments.ts'

// Everything that doesn't depend on columns is an SQL function. See sql/52-organizations.sql and sql/53-erasure.sql.

/** The record tables, each before the tables it references. */
export const DELETED_TABLES: readonly string[] = [
  ...new Set(RECORD_KINDS.map((kind) => RECORD_TABLES[kind].table).reverse()),
]

/** Creates the PostgreSQL store for organizations. */
export function createOrganizationStore(database: Database): OrganizationStore {
  async function erase(
    verb: 'delete' | 'forget',
    organizationId: string,
    build: BuildStatement,
  ): Promise<TextRow> {
    try {
      return await database.rowFor(organizationId, build)
    } catch (error) {
      if (!(error instanceof BusinessApiError) || error.code !== MISSING_PRIVILEGE) throw error
      const denied = error.cause instanceof Error ? error.cause.message : error.message
      const remedy = grantFor('eraser', denied) ?? "see 'business-api-kit grants --eraser ROLE'"
      const message = `Cannot ${verb} because of ${denied}: ${remedy}`
      throw new BusinessApiError(MISSING_PRIVILEGE, message, { cause: error.cause })
    }
  }

  return {
    async deletePart({ organizationId, limit, after }) {
      const [answer] = await erase(
        'delete',
        organizationId,
        (sql, answerTag) => sql`
          select
            business_api.delete_organization_part(
              ${organizationId}::text, ${limit}::int, ${after}::text::jsonb, ${textArray(sql, DELETED_TABLES)}
            )::text,
            ${answerTag}`,
      )
      return readPart(answer ?? '')
    },

    async forgetPart({ organizationId, businessId, proposalIds, limit, after }) {
      const [answer] = await erase('forget', organizationId, (sql, answerTag) =>
        after === null
          ? sql`${forgetRecords(sql, organizationId, businessId, proposalIds)} select answer, ${answerTag} from counts`
          : sql`
              select
                business_api.forget_business_part(
                  ${organizationId}::text, ${businessId}::text, ${FORGOTTEN_BUSINESS}::text::jsonb,
                  ${limit}::int, ${after}::text::jsonb, ${textArray(sql, TYPES_WITHOUT_BUSINESS)}
                )::text,
                ${answerTag}`,
      )
      return answer === null || answer === undefined ? null : readPart(answer)
    },
  }
}

/** The first part: erases personal data in the business itself and the signatures on its proposals. */
function forgetRecords(
  sql: Sql,
  organizationId: string,
  businessId: string,
  proposalIds: readonly string[],
): Fragment {
  return sql`
    with businesses as (
      update business_api.businesses record set ${sql.unsafe(FORGET_BUSINESS.set)}
       where record.organization_id = ${organizationId}::text and record.id = ${businessId}::text
         and ${sql.unsafe(FORGET_BUSINESS.isPersonal)}
      returning 1
    ), proposals as (
      update business_api.proposals record set ${sql.unsafe(FORGET_PROPOSAL.set)}
       where record.organization_id = ${organizationId}::text and record.id = any (${textArray(sql, proposalIds)})
         and ${sql.unsafe(FORGET_PROPOSAL.isPersonal)} and exists (select 1 from business_api.businesses b
           where b.organization_id = ${organizationId}::text and b.id = ${businessId}::text)
      returning 1
    ), counts as (
      select case when exists (
        select 1 from business_api.businesses b
        where b.organization_id = ${organizationId}::text and b.id = ${businessId}::text
      ) then pg_catalog.json_build_object(
        'counts', pg_catalog.json_build_object(
          'businesses', (select count(*) from businesses), 'proposals', (select count(*) from proposals)
        ),
        'next', pg_catalog.json_build_array('events', '')
      )::text end as answer
    )`
}

interface Forgetting {
  readonly set: string
  /** Condition that a row has personal data. Nulls don't count. */
  readonly isPersonal: string
}

function forgetting(table: RecordTable): Forgetting {
  const personal = columnsOf(table).filter(({ forgotten }) => forgotten !== undefined)
  const literal = (value: string | null | undefined): string => (value == null ? 'null' : `'${value}'`)
  return {
    set: [
      ...personal.map(({ name, forgotten }) => {
        return `${name} = case when record.${name} is not null then ${literal(forgotten)} end`
      }),
      CHANGED_NOW,
    ].join(', '),
    isPersonal: `(${personal.map(({ name, forgotten }) => `record.${name} is distinct from ${literal(forgotten)} and record.${name} is not null`).join(' or ')})`,
  }
}

const FORGOTTEN_BUSINESS = JSON.stringify(forgotten(businessTable))
const FORGET_BUSINESS = forgetting(businessTable)
const FORGET_PROPOSAL = forgetting(proposalTable)

function readPart(answer: string): PartResult {
  const { counts, next } = JSON.parse(answer)
  return { counts, next: next && JSON.stringify(next) }
}
