// biome-ignore-all assist/source/organizeImports: by resource

// Calls
export type { Idempotent } from './platform/idempotent.ts'
export {
  createPlatform,
  type Platform,
  type PlatformInTransaction,
  type PlatformOptions,
  type PublishOptions,
  type TransactionalPlatform,
  type TransactionalStore,
} from './platform/platform.ts'
export type { CallOptions } from './platform/calls.ts'
export type { Page, PageQuery } from './base/page.ts'
export type { CurrentTraceparent } from './base/traceparent.ts'
export type { RecordStore } from './business-store.ts'
export type { Updated } from './resources/record-reads.ts'
export type { RecordKind } from './resources/records.ts'
export type { EventData, EventType } from './resources/event-catalogue.ts'
export type { EventDefinition, EventOwner, EventTypeOf, PublishedData } from './resources/own-events.ts'
export {
  IMPORT_MAX,
  type ImportCall,
  type Imported,
  type ImportRecord,
  type ImportReport,
} from './platform/import-records.ts'

// Resources
export type { BusinessCalls, BusinessUpdate, NewBusiness } from './platform/businesses.ts'
export type { Business } from './resources/businesses.ts'
export type { ClientCalls, ClientQuery, ClientRevenue, ClientStatus } from './platform/clients.ts'
export type { Client, StoredClient } from './resources/clients.ts'
export type { LeadCalls, LeadQuery, LeadStage, NewLead } from './platform/leads.ts'
export type { ConvertedLead, Lead, StoredLead } from './resources/leads.ts'
export type {
  NewProposal,
  ProposalAcceptance,
  ProposalCalls,
  ProposalQuery,
  ProposalRef,
  ProposalRevision,
} from './platform/proposals.ts'
export type { Proposal, ProposalSignature, StoredProposal } from './resources/proposals.ts'
export type {
  InvoiceCalls,
  InvoiceIssue,
  InvoiceQuery,
  InvoiceRef,
  NewInvoice,
  OverdueOptions,
} from './platform/invoices.ts'
export type { NewPayment, NewReversal } from './platform/payments.ts'
export type { Invoice, PaidInvoice, Payment, StoredInvoice } from './resources/invoices.ts'
export type { NewProject, ProjectCalls, ProjectQuery, ProjectRef } from './platform/projects.ts'
export type { BillingType, Project, StoredProject } from './resources/projects.ts'
