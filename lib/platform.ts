export type { BusinessCalls, NewBusiness } from './platform/businesses.ts'
export type { CallOptions } from './platform/calls.ts'
export type { ClientCalls, ClientRevenue, ClientStatus } from './platform/clients.ts'
export type {
  InvoiceCalls,
  InvoiceIssue,
  InvoiceRef,
  NewInvoice,
  NewPayment,
  OverdueOptions,
} from './platform/invoices.ts'
export type { LeadCalls, LeadStage, NewLead } from './platform/leads.ts'
export {
  createPlatform,
  type Platform,
  type PlatformOptions,
  type PublishOptions,
  type TransactionalPlatform,
  type TransactionalStore,
} from './platform/platform.ts'
export type { BillingType, NewProject, ProjectCalls, ProjectRef } from './platform/projects.ts'
export type {
  NewProposal,
  ProposalCalls,
  ProposalRef,
  ProposalRevision,
  ProposalSignature,
} from './platform/proposals.ts'
