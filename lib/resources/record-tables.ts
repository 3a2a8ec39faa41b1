import { businessTable } from './businesses.ts'
import { clientTable } from './clients.ts'
import type { RecordTable } from './columns.ts'
import { invoiceTable, paymentTable } from './invoices.ts'
import { leadTable } from './leads.ts'
import { projectTable } from './projects.ts'
import { proposalTable } from './proposals.ts'

/** The kinds of an organization's records, each after the kinds that it refers to: the order of imports and exports. */
export const RECORD_KINDS = [
  'business',
  'client',
  'lead',
  'proposal',
  'invoice',
  'payment',
  'project',
] as const

/** A kind of record. */
export type RecordKind = (typeof RECORD_KINDS)[number]

/** The columns of each kind. */
export const RECORD_TABLES: Readonly<Record<RecordKind, RecordTable>> = {
  business: businessTable,
  client: clientTable,
  lead: leadTable,
  proposal: proposalTable,
  invoice: invoiceTable,
  payment: paymentTable,
  project: projectTable,
}
