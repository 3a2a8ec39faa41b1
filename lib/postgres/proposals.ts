import { minorUnits } from '../resources/currencies.ts'
import type { ProposalChanges, ProposalSignature, ProposalStore } from '../resources/proposals.ts'
import type { Admissions } from './admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineChange, isAllowed, orBefore, setOf, writeChange } from './statements/change.ts'
import { createNumbered, defineNumbered } from './statements/document-numbers.ts'
import { jsonTimestamp } from './statements/fragments.ts'
import { defineList } from './statements/list.ts'
import { getRecord, isOneOf, listRecords, type RecordRows, withUpdatedAt } from './statements/read.ts'

const TABLE = 'business_api.proposals'

const LIST = defineList(TABLE)

const RECORD: RecordRows = {
  rows: TABLE,
  representation: withUpdatedAt(`
    pg_catalog.left(record.representation, -1) || ',"signature":' || case
      when record.signed_by is null then 'null'
      else '{"signedBy":' || pg_catalog.to_json(record.signed_by)::text
        || ',"signedAt":' || ${jsonTimestamp('record.signed_at')} || '}'
    end || '}'`),
}

interface ProposalValues {
  readonly title: string
  readonly status: string
  readonly version: number
  readonly total: string
  readonly monthlyTotal: string
  readonly currency: string
  readonly decimals: number
}

const CREATE = defineNumbered<ProposalValues>(
  TABLE,
  'proposal',
  `proposal as (
    insert into business_api.proposals
      (organization_id, id, number, title, status, version, total, monthly_total, currency, minor_units)
    select
      @organizationId::text, @writeId::text, numbered.number, @title::text, @status::text, @version::int,
      @total::text::numeric, @monthlyTotal::text::numeric, @currency::text, @decimals::int
    from numbered
    on conflict (organization_id, id) do nothing
    returning number
  )`,
)

const CHANGE = defineChange<{ readonly set: string; readonly isRevision: string }>({
  table: TABLE,
  state: 'status',
  after: [
    `judged as (
      select
        before.organization_id, before.id, before.number,
        ${orBefore('title')},
        ${orBefore('status')},
        ${orBefore('total', 'total', 'numeric(15, 3)')},
        ${orBefore('monthly_total', 'monthlyTotal', 'numeric(15, 3)')},
        ${orBefore('currency')},
        ${orBefore('minor_units', 'decimals', 'integer')},
        before.version + case when @isRevision::text::boolean and not before.is_repeat then 1 else 0 end as version,
        ${orBefore('signed_by', 'signedBy')},
        ${orBefore('signed_at', 'signedAt', 'timestamptz')}
      from before
      where ${isAllowed('status')}
    )`,
    `after as (
      select * from judged
      where total = pg_catalog.round(total, minor_units) and monthly_total = pg_catalog.round(monthly_total, minor_units)
    )`,
  ],
  representation: `business_api.proposal_representation(
    after.id, after.number, after.title, after.status, after.version, after.total, after.monthly_total, after.currency
  )`,
  set: `
    title = after.title, status = after.status, total = after.total, monthly_total = after.monthly_total,
    currency = after.currency, minor_units = after.minor_units, version = after.version,
    signed_by = after.signed_by, signed_at = after.signed_at`,
  reason: "(select 'too_fine' from judged)",
})

/** Proposals in PostgreSQL. */
export function createProposalStore(database: RecordDatabase, admissions: Admissions): ProposalStore {
  return {
    admitAndList: (request, asked) => admissions.admitToPage(request, LIST, asked),

    create(creation) {
      const { title, status, version, total, monthlyTotal, currency, minorUnits: given } = creation.record
      return createNumbered(database, creation, CREATE, {
        title,
        status,
        version,
        total: String(total),
        monthlyTotal: String(monthlyTotal),
        currency,
        decimals: given ?? minorUnits(currency),
      })
    },

    list: (organizationId, { statuses, number }, limit, before) =>
      listRecords(database, RECORD, organizationId, (sql) => ({
        limit,
        before,
        ...(number === undefined
          ? { ranges: statuses && { column: 'status', values: statuses } }
          : {
              unique: { column: 'number', value: number },
              conditions: isOneOf(sql, 'status', statuses),
            }),
      })),

    get: (organizationId, id) => getRecord(database, RECORD, organizationId, id),

    change(given) {
      const { set } = given
      const { title, status, total, monthlyTotal, currency, isRevision = false } = set
      const decimals = decimalsOf(set)
      return writeChange(database, given, CHANGE, {
        set: setOf({ title, status, total, monthlyTotal, currency, decimals, ...signature(set) }),
        isRevision: String(isRevision),
      })
    },
  }
}

function decimalsOf({ currency, minorUnits: given }: ProposalChanges): number | undefined {
  return currency === undefined ? undefined : (given ?? minorUnits(currency))
}

/** A revision is not signed yet. */
function signature({
  isRevision,
  signature: given,
}: ProposalChanges): Partial<Record<keyof ProposalSignature, string | null>> {
  if (given) return { signedBy: given.signedBy, signedAt: given.signedAt }
  return isRevision ? { signedBy: null, signedAt: null } : {}
}
