export type { Admission, AdmissionRequest, AdmittedPage, Caller } from './admission.ts'
export { type BusinessApi, createBusinessApi } from './api/create-business-api.ts'
export type { BusinessApiOptions, ErrorContext, RateLimitOptions } from './api/options.ts'
export { API_KEY_PATTERN, type ApiKey, type ApiKeyRecord, type ApiKeyStore } from './api-keys.ts'
export type { Business } from './businesses.ts'
export type { Client, ClientStore, CreateClientInput } from './clients.ts'
export type { Creation, CreationOutcome, IdempotencyClaim } from './creation.ts'
export type {
  AttemptResult,
  Backlog,
  ClaimedDelivery,
  ClaimRef,
  ClaimRequest,
  Claims,
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
  Room,
} from './deliveries.ts'
export type {
  EndpointChanges,
  EndpointRecord,
  EndpointState,
  EndpointStore,
  WebhookEndpoint,
} from './endpoints.ts'
export type { EventEnvelope, RecordedEvent } from './envelope.ts'
export {
  ALREADY_EXISTS,
  BusinessApiError,
  type ErrorCode,
  INVALID_EVENT,
  INVALID_INPUT,
  INVALID_STATE,
  NOT_FOUND,
  SCHEMA_TOO_NEW,
  SECRET_UNAVAILABLE,
  STORE_UNAVAILABLE,
  storeUnavailable,
} from './errors.ts'
export { EVENT_TYPES, type Event, type EventData, type EventType } from './events.ts'
export { type Clock, createIds, type IdKind, type Ids } from './ids.ts'
export type { Invoice, InvoiceStore } from './invoices.ts'
export { type JsonText, jsonText } from './json-text.ts'
export type { CreateLeadInput, Lead, LeadRecord, LeadStore } from './leads.ts'
export type { Logger, LogLine } from './log.ts'
export type { Project, ProjectStore } from './projects.ts'
export type { Proposal, ProposalStore } from './proposals.ts'
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
export type { BusinessStore } from './store.ts'
export type { AttemptTrace, RequestTrace, StoreTrace } from './tracing.ts'
export type {
  AttemptTimings,
  WebhookAnswer,
  WebhookRequest,
  WebhookSender,
} from './webhooks/webhook-sender.ts'
