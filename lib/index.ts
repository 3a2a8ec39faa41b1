export type { Admission, AdmissionRequest, AdmittedPage, Caller } from './admission.ts'
export { type BusinessApi, createBusinessApi } from './api/create-business-api.ts'
export type { BusinessApiOptions, ErrorContext, RateLimitOptions } from './api/options.ts'
export {
  API_KEY_PATTERN,
  type ApiKey,
  type ApiKeyRecord,
  type ApiKeyRotation,
  type ApiKeyStore,
  type ApiKeySuccessor,
} from './api-keys.ts'
export {
  AUDIT_ACTIONS,
  type AuditAction,
  type AuditEntry,
  type AuditFilter,
  type AuditRecord,
  type AuditStore,
} from './audit.ts'
export { type Blank, blank, fill, type WithBlanks } from './blanks.ts'
export type { Business, BusinessRecordStore, CreateBusinessInput } from './businesses.ts'
export type { Change, ChangeClaim, ChangeOutcome } from './change.ts'
export type { Client, ClientChanges, ClientStore, CreateClientInput } from './clients.ts'
export type { Creation, CreationOutcome, IdempotencyClaim, NumberedOutcome } from './creation.ts'
export type {
  AttemptResult,
  Backlog,
  ClaimedDelivery,
  ClaimRef,
  ClaimRequest,
  Claims,
  DeadLetter,
  Delivery,
  DeliveryAttempt,
  DeliveryDetails,
  DeliveryFilter,
  DeliveryState,
  DeliveryStore,
  EndpointHealth,
  EndpointRef,
  FailureLimit,
  PurgeReport,
  PurgeRequest,
  RecordReport,
  Room,
} from './deliveries.ts'
export type {
  EndpointChanges,
  EndpointRecord,
  EndpointState,
  EndpointStore,
  EndpointTarget,
  WebhookEndpoint,
} from './endpoints.ts'
export type { EventEnvelope, RecordedEvent } from './envelope.ts'
export {
  ALREADY_EXISTS,
  BusinessApiError,
  type ErrorCode,
  IDEMPOTENCY_KEY_IN_USE,
  IDEMPOTENCY_KEY_REUSED,
  INVALID_EVENT,
  INVALID_INPUT,
  INVALID_STATE,
  NOT_FOUND,
  OVERPAYMENT,
  SCHEMA_TOO_NEW,
  SECRET_UNAVAILABLE,
  STORE_UNAVAILABLE,
  storeUnavailable,
} from './errors.ts'
export { EVENT_TYPES, type Event, type EventData, type EventType } from './events.ts'
export { type Clock, createIds, type IdKind, type Ids } from './ids.ts'
export type {
  Invoice,
  InvoiceChanges,
  InvoiceStore,
  NewInvoice,
  OverdueRequest,
  Payment,
  Settlement,
} from './invoices.ts'
export { type JsonText, jsonText } from './json-text.ts'
export type {
  Conversion,
  ConvertedLead,
  CreateLeadInput,
  Lead,
  LeadChanges,
  LeadRecord,
  LeadStore,
} from './leads.ts'
export type { Logger, LogLine } from './log.ts'
export type { ExpiryNotice, ExpiryRequest, Notice, NoticeStore } from './notices.ts'
export { formatNumber, type NewNumber, type NumberSeries } from './numbering.ts'
export type { Project, ProjectChanges, ProjectStore } from './projects.ts'
export type {
  NewProposal,
  Proposal,
  ProposalChanges,
  ProposalStore,
  Signature,
} from './proposals.ts'
export type { EventStore } from './publishing.ts'
export {
  type BucketState,
  type BucketTimes,
  type RateLimit,
  type RateLimitState,
  type RateLimits,
  takeToken,
} from './rate-limit.ts'
export { SCOPES, type Scope } from './scopes.ts'
export type { BusinessStore, RecordStore } from './store.ts'
export type { AttemptTrace, RequestTrace, StoreTrace } from './tracing.ts'
export type {
  AttemptTimings,
  WebhookAnswer,
  WebhookRequest,
  WebhookSender,
} from './webhook-sender.ts'
