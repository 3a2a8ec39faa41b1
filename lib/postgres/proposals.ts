import { columnsOf } from '../resources/columns.ts'
import { minorUnits } from '../resources/currencies.ts'
import {
  type ProposalChanges,
  type ProposalSignature,
  type ProposalStore,
  proposalTable,
} from '../resources/proposals.ts'
import type { Admissions } from './admission/admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineChange, isAllowed, setOf, writeChange } from './statements/change.ts'
import { afterChange, assign } from './statements/columns.ts'
import { createNumbered, defineNumbered } from './statements/document-numbers.ts'
import { jsonTimestamp } from './statements/fragments.ts'
import { defineReads, readSlice } from './statements/read.ts'

const COLUMNS = columnsOf(proposalTable)

const READS = defineReads(proposalTable, {
  representation: `
    pg_catalog.left(record.representation, -1) || ',"signature":' || case
      when record.signed_by is null then 'null'
      else '{"signedBy":' || pg_catalog.to_json(record.signed_by)::text
        || ',"signedAt":' || ${jsonTimestamp('record.signed_at')} || '}'
    end || '}'`,
})

const CREATE = defineNumbered(proposalTable)

const CHANGE = defineChange<{ readonly set: string; readonly isRevision: string }>({
  of: proposalTable,
  state: 'status',
  after: [
    `judged as (
      select ${afterChange(COLUMNS, {
        version:
          'before.version + case when @isRevision::text::boolean and not before.is_repeat then 1 else 0 end',
      })}
      from before
      where ${isAllowed('status')}
    )`,
    `after as (
      select * from judged
      where total = pg_catalog.round(total, minor_units) and monthly_total = pg_catalog.round(monthly_total, minor_units)
    )`,
  ],
  set: assign(COLUMNS, { also: ['version'] }),
  reason: "(select 'too_fine' from judged)",
})

/** Creates the PostgreSQL store for proposals. */
export function createProposalStore(database: RecordDatabase, admissions: Admissions): ProposalStore {
  return {
    ...readSlice(database, admissions, READS, ({ statuses, number }) => ({
      states: { column: 'status', values: statuses },
      unique: { column: 'number', value: number },
    })),

    create: (creation) => createNumbered(database, creation, CREATE),

    change(given) {
      const { isRevision = false, signature, minorUnits: _, ...set } = given.set
      return writeChange(database, given, CHANGE, {
        // A revision needs a new signature.
        set: setOf({ ...set, ...decimalsOf(given.set), ...(isRevision ? UNSIGNED : {}), ...signature }),
        isRevision: String(isRevision),
      })
    },
  }
}

const UNSIGNED: Readonly<Record<keyof ProposalSignature, null>> = { signedBy: null, signedAt: null }

/** Returns the number of decimal places if the currency changes. */
function decimalsOf({ currency, minorUnits: given }: ProposalChanges): { readonly minorUnits?: number } {
  return currency === undefined ? {} : { minorUnits: given ?? minorUnits(currency) }
}
