export type {
  Admission,
  AdmissionRequest,
  AdmittedPage,
  Caller,
  PageRequest,
  Since,
} from './access/admission.ts'
export type {
  ApiKeyChange,
  ApiKeyRecord,
  ApiKeyRotation,
  ApiKeyStore,
  ApiKeySuccessor,
} from './access/api-keys.ts'
export {
  AUDIT_ID_MARGIN_MS,
  type AuditFilter,
  type AuditRecord,
  type AuditStore,
  type TestLimit,
} from './access/audit.ts'
export type { DeletionRequest, ForgetRequest, OrganizationStore, PartResult } from './access/organizations.ts'
export {
  type BucketState,
  type BucketTimes,
  type RateLimit,
  type RateLimitState,
  type RateLimits,
  takeToken,
} from './access/rate-limit.ts'
export type { LoggedRequest, RequestFilter, RequestLogStore, RequestRecord } from './access/request-log.ts'
export { BusinessApiError, STORE_UNAVAILABLE, storeUnavailable } from './base/errors.ts'
export { type Clock, createIds, type IdKind, type Ids } from './base/ids.ts'
export { type JsonText, jsonText } from './base/json-text.ts'
export type { BusinessApiStore, ConnectionUse, RecordStore, TransactionStore } from './business-store.ts'
export type { BackfillFacts, BackfillType } from './resources/backfill.ts'
export type { Business, BusinessChanges, BusinessFilter, BusinessStore } from './resources/businesses.ts'
export type { Client, ClientChanges, ClientFilter, ClientStore, StoredClient } from './resources/clients.ts'
export { formatNumber, type NewNumber, type NumberSeries } from './resources/document-numbers.ts'
export type {
  ImportedRecord,
  ImportOutcome,
  ImportRefusal,
  ImportState,
  ImportStore,
  SeriesPlace,
} from './resources/imports.ts'
export {
  DUE_STATUSES,
  type Invoice,
  type InvoiceChanges,
  type InvoiceFilter,
  type InvoiceRecord,
  type InvoiceStore,
  type OverdueRequest,
  type PaidInvoice,
  type Payment,
  type PaymentRefusal,
  type PaymentRow,
  type Settlement,
  type StoredInvoice,
} from './resources/invoices.ts'
export type {
  Conversion,
  ConvertedLead,
  Lead,
  LeadChanges,
  LeadFacts,
  LeadFilter,
  LeadRow,
  LeadStore,
  StoredLead,
} from './resources/leads.ts'
export type {
  Proposal,
  ProposalChanges,
  ProposalFilter,
  ProposalRecord,
  ProposalSignature,
  ProposalStore,
  StoredProposal,
} from './resources/proposals.ts'
export type { EventStore } from './resources/publishing.ts'
export type { PlainRecord, PlainStore, RecordReads, StatusFilter, Updated } from './resources/record-reads.ts'
export type { Service } from './service.ts'
export type { BackfillOutcome, BackfillRequest, BackfillStore } from './webhooks/backfill.ts'
export type {
  AttemptResult,
  Capacity,
  ClaimedDelivery,
  ClaimRef,
  ClaimRequest,
  Claims,
  DeliveryAttempt,
  EndpointHealth,
  EndpointRef,
  FailedDelivery,
  FailureLimit,
  ResultReport,
  UnreadDelivery,
} from './webhooks/claims.ts'
export type {
  CancellationRequest,
  Delivery,
  DeliveryDetails,
  DeliveryFilter,
  DeliveryState,
  DeliveryStore,
  PurgeReport,
  PurgeRequest,
  RecoveryRequest,
  RetainedDelivery,
  SharedPurgeReport,
  SharedPurgeRequest,
} from './webhooks/deliveries.ts'
export type { EndpointChoices } from './webhooks/endpoint-choices.ts'
export type {
  EndpointChange,
  EndpointChangeOutcome,
  EndpointChanges,
  EndpointInsertion,
  EndpointMove,
  EndpointRecord,
  EndpointRemoval,
  EndpointState,
  EndpointStore,
  EndpointTarget,
  HeaderChange,
  RemovedEndpoint,
  SealedEndpoint,
  SealedExchange,
  SealedForms,
  SecretReplacement,
  SecretRotation,
  TestTarget,
  WebhookEndpoint,
} from './webhooks/endpoints.ts'
export type {
  EventFilter,
  EventLogStore,
  EventNote,
  LoggedEvent,
  LoggedEventBody,
  LoggedEvents,
  WriteMark,
} from './webhooks/event-log.ts'
export type { ExpiryNotice, ExpiryRequest, NoticeStore } from './webhooks/notices.ts'
export { QUEUE_COUNT_MAX, type QueueCounts, type QueueTarget } from './webhooks/queue-counts.ts'
export type { Change, ChangeKeyReservation, ChangeOutcome } from './writes/change.ts'
export type { Creation, CreationOutcome, KeyReservation, NumberedOutcome } from './writes/creation.ts'
export type { EventRecord } from './writes/event-envelope.ts'
export type { ReplyRequest, ReplyStore } from './writes/idempotency.ts'
export { type Placeholder, placeholder, render, type Template, WHOLE_RECORD } from './writes/placeholders.ts'
