export type { Business } from './businesses.ts'
export type { Client } from './clients.ts'
export type { EventData, EventType } from './events.ts'
export type { Invoice } from './invoices.ts'
export type { ConvertedLead, Lead } from './leads.ts'
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
export type { Project } from './projects.ts'
export type { Proposal } from './proposals.ts'
export type { RecordStore } from './store.ts'
