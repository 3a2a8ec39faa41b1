import { minorUnits } from '../resources/currencies.ts'
import type { Proposal, ProposalChanges, ProposalSignature, ProposalStore } from '../resources/proposals.ts'
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
import { beginNumbered, createNumbered, numberedColumns } from './statements/document-numbers.ts'
import { admitToPage, defineList } from './statements/list.ts'

const TABLE = 'business_api.proposals'

const REPRESENTATION = `business_api.proposal_representation(
  after.id, after.number, after.title, after.status, after.version, after.total, after.monthly_total, after.currency
)`

const LIST = defineList(TABLE)

/** Creates the slice of proposals in PostgreSQL. */
export function createProposalStore(database: RecordDatabase): ProposalStore {
  return {
    admitAndList: (request, limit) => admitToPage(database, LIST, request, limit),

    create(creation) {
      const { organizationId, record } = creation
      const decimals = record.minorUnits ?? minorUnits(record.currency)
      return createNumbered(
        database,
        creation,
        TABLE,
        (sql, answerTag) => sql`
          with ${beginNumbered(sql, creation, TABLE)},
          proposal as (
            insert into business_api.proposals
              (organization_id, id, number, title, status, version, total, monthly_total, currency, minor_units)
            select
              ${organizationId}::text, ${record.id}::text, numbered.number, ${record.title}::text,
              ${record.status}::text, ${record.version}::int, ${String(record.total)}::text::numeric,
              ${String(record.monthlyTotal)}::text::numeric, ${record.currency}::text, ${decimals}::int
            from numbered
            on conflict (organization_id, id) do nothing
          )
          select ${numberedColumns(sql)}, ${answerTag}`,
      )
    },

    change(given) {
      const { set } = given
      return writeChange<Proposal, 'too_fine'>(
        database,
        given,
        (sql, answerTag) => sql`
          with ${before(sql, given, TABLE)},
          judged as (
            select
              before.organization_id, before.id, before.number,
              ${orBefore(sql, set.title, 'title')},
              ${orBefore(sql, set.status, 'status')},
              ${orBefore(sql, set.total, 'total', 'numeric(15, 3)')},
              ${orBefore(sql, set.monthlyTotal, 'monthly_total', 'numeric(15, 3)')},
              ${orBefore(sql, set.currency, 'currency')},
              ${orBefore(sql, decimalsOf(set), 'minor_units', 'integer')},
              before.version
                + case when ${set.isRevision ?? false}::text::boolean and not before.is_repeat then 1 else 0 end
                as version,
              ${orBefore(sql, signature(set).signedBy, 'signed_by')},
              ${orBefore(sql, signature(set).signedAt, 'signed_at', 'timestamptz')}
            from before
            where ${isAllowed(sql, given, 'status')}
          ),
          after as (
            select * from judged
            where total = round(total, minor_units) and monthly_total = round(monthly_total, minor_units)
          ),
          ${represented(sql, REPRESENTATION)},
          ${reservedFor(sql, given)},
          written as (
            update business_api.proposals proposal
               set title = after.title, status = after.status, total = after.total,
                   monthly_total = after.monthly_total, currency = after.currency, minor_units = after.minor_units,
                   version = after.version,
                   signed_by = after.signed_by, signed_at = after.signed_at, ${withThisChange(sql, given)}
              from before, after, reserved
             where proposal.organization_id = after.organization_id and proposal.id = after.id and not before.is_repeat
          ),
          ${publishedOf(sql, given)}
          select ${changeColumns(sql, 'status', sql`(select 'too_fine' from judged)`)}, ${answerTag}`,
      )
    },
  }
}

function decimalsOf({ currency, minorUnits: given }: ProposalChanges): number | undefined {
  return currency === undefined ? undefined : (given ?? minorUnits(currency))
}

/** Returns the values of the signature's columns. A revision clears the signature. */
function signature({
  isRevision,
  signature: given,
}: ProposalChanges): Partial<Record<keyof ProposalSignature, string | null>> {
  if (given) return given
  return isRevision ? { signedBy: null, signedAt: null } : {}
}
