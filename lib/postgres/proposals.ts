import type { ProposalStore } from '../proposals.ts'
import { admitToPage, newest } from './admission.ts'
import { claim, create, outcomeColumns } from './creation.ts'
import type { Database } from './database.ts'

/** Proposals in PostgreSQL. */
export function createProposalStore(database: Database): ProposalStore {
  return {
    list(request, limit) {
      return admitToPage(
        database,
        request,
        (sql) => sql`
          select
            proposal.id, proposal.number, proposal.title, proposal.status, proposal.version,
            trim_scale(proposal.total) as "total",
            trim_scale(proposal.monthly_total) as "monthlyTotal",
            proposal.currency
          from ${newest(sql, 'business_api.proposals')} as proposal
          order by proposal.id desc
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
          proposal as (
            insert into business_api.proposals
              (organization_id, id, number, title, status, version, total, monthly_total, currency)
            select
              ${organizationId}::text, ${record.id}::text, ${record.number}::text, ${record.title}::text,
              ${record.status}::text, ${record.version}::int, ${String(record.total)}::text::numeric,
              ${String(record.monthlyTotal)}::text::numeric, ${record.currency}::text
            from claim
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, ${mark}`,
      )
    },
  }
}
