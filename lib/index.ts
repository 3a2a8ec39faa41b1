// biome-ignore-all assist/source/organizeImports: in the order in which you need the names

// Handler
export { type Authenticated, type BusinessApi, createBusinessApi } from './api/create-business-api.ts'
export type { BusinessApiOptions, RateLimitOptions } from './api/options.ts'
export type { ErrorContext } from './http/report.ts'
export type { ApiInfo } from './openapi/info.ts'
export type { PeerRequest } from './api/peer-address.ts'
export type { AdmittedCall, AnsweredCall, ApiCall, OnRequest, OnResponse } from './api/hooks.ts'
export type { RequestLog, RequestLogChoice } from './api/request-log.ts'

// Service and custom events
export { defineService, type Service, type ServiceOptions } from './service.ts'
export {
  defineEvent,
  type EventDefinition,
  type EventOwner,
  type EventsOf,
  type EventTypeOf,
  type PublishedData,
} from './resources/own-events.ts'
export { type StandardSchema, withJsonSchema } from './base/standard-schema.ts'

// Custom routes
export {
  defineRoute,
  type Route,
} from './resources/own-routes.ts'
export {
  page,
  type RouteContext,
  type RoutePage,
  type RouteReply,
  readPage,
} from './resources/own-replies.ts'
export { Refusal } from './http/refusal.ts'

// Access
export { API_KEY_PATTERN, type ApiKey, type ImportedKeys } from './access/api-keys.ts'
export type { RateLimit, RateLimits } from './access/rate-limit.ts'
export {
  type KeyScope,
  type OwnScope,
  SCOPES,
  type Scope,
  type ScopeOf,
  type ScopeOwner,
} from './access/scopes.ts'

// Resources and events
export type { Business, CreateBusinessInput } from './resources/businesses.ts'
export type { Client, CreateClientInput } from './resources/clients.ts'
export type { CreateLeadInput, Lead } from './resources/leads.ts'
export type { Invoice } from './resources/invoices.ts'
export type { Proposal } from './resources/proposals.ts'
export type { Project } from './resources/projects.ts'
export { EVENT_TYPES, type Event, type EventData, type EventType } from './resources/event-catalogue.ts'
export type { EventEnvelope } from './writes/event-envelope.ts'

// Errors
export {
  ALREADY_EXISTS,
  BusinessApiError,
  type ErrorCode,
  IDEMPOTENCY_KEY_IN_USE,
  IDEMPOTENCY_KEY_REUSED,
  INVALID_EVENT,
  INVALID_INPUT,
  INVALID_STATE,
  LIMIT_REACHED,
  MISSING_PRIVILEGE,
  NOT_FOUND,
  OVERPAYMENT,
  SCHEMA_MISSING,
  SCHEMA_OUTDATED,
  SCHEMA_TOO_NEW,
  SECRET_UNAVAILABLE,
  STORE_UNAVAILABLE,
  WRONG_SHARD,
} from './base/errors.ts'

// Host options and signals
export { type Clock, createIds, type IdKind, type Ids } from './base/ids.ts'
export type { Logger, LogLine } from './base/log.ts'
export type { CurrentTraceparent } from './base/traceparent.ts'
export type {
  AnswerTrace,
  AttemptTrace,
  ClaimStep,
  LoopStep,
  PurgeStep,
  RequestTrace,
  ResultStep,
  StoreTrace,
  TracedResult,
} from './base/tracing.ts'
export type { BusinessApiStore, RecordStore } from './business-store.ts'
export type { FetchBody } from './http/fetch.ts'
