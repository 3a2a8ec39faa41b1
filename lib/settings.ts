export type { ApiKey, ImportedKeys } from './access/api-keys.ts'
export { AUDIT_ACTIONS, type AuditAction, type AuditEntry } from './access/audit.ts'
export type { RateLimit } from './access/rate-limit.ts'
export type { LoggedRequest } from './access/request-log.ts'
export type { KeyScope, OwnScope, Scope, ScopeOf } from './access/scopes.ts'
export type { Page, PageQuery } from './base/page.ts'
export type { BackfillType } from './resources/backfill.ts'
export type { EventType } from './resources/event-catalogue.ts'
export type { EventDefinition, EventTypeOf } from './resources/own-events.ts'
export type { Service } from './service.ts'
export type {
  Activity,
  ActivityNumbers,
  ActivityQuery,
  EndpointActivity,
  IntervalActivity,
  ReadActivity,
} from './settings/activity.ts'
export type {
  ApiKeySettings,
  ApiKeyUpdate,
  CreatedApiKey,
  ImportedApiKey,
  NewApiKey,
  RotateApiKeyOptions,
  RotatedApiKey,
} from './settings/api-keys.ts'
export type { AuditPage, AuditQuery, AuditSettings } from './settings/audit.ts'
export type {
  BackfillCalls,
  BackfillOptions,
  BackfillPart,
  BackfillPreview,
  BackfillSelection,
} from './settings/backfill.ts'
export type { Acting } from './settings/calls.ts'
export type {
  DeliveryPage,
  DeliveryQuery,
  DeliverySettings,
  RecoverableCounts,
  Recovery,
  RecoveryFilter,
  RecoveryOptions,
} from './settings/deliveries.ts'
export {
  type Capabilities,
  createDeveloperSettings,
  type DeveloperSettings,
  type DeveloperSettingsOptions,
} from './settings/developer-settings.ts'
export type { HeaderPatch, HeaderValues } from './settings/endpoint-headers.ts'
export type { EndpointUpdate } from './settings/endpoint-update.ts'
export type { EndpointSettings, NewEndpoint } from './settings/endpoints.ts'
export type {
  EventDetails,
  EventPage,
  EventQuery,
  EventRedeliveryOptions,
  EventSettings,
  FollowOptions,
  ListedEvent,
} from './settings/events.ts'
export type {
  BusinessForgetting,
  ForgottenBusiness,
  OrganizationDeletion,
  OrganizationSettings,
} from './settings/organizations.ts'
export type { RateLimitSettings } from './settings/rate-limits.ts'
export type { RequestQuery, RequestSettings } from './settings/requests.ts'
export type { ResealOptions, ResealReport, SecretSettings } from './settings/resealing.ts'
export type { EndpointWithSecret, RotateSecretOptions } from './settings/secret-rotation.ts'
export type { SendTestOptions, TestResult } from './settings/test-delivery.ts'
export type { ActivityInterval, AttemptClass } from './webhooks/activity.ts'
export type { AttemptHeaders, DeliveryAttempt } from './webhooks/claims.ts'
export type { Delivery, DeliveryDetails, DeliveryState, ResponseClass } from './webhooks/deliveries.ts'
export type { EndpointState, WebhookEndpoint } from './webhooks/endpoints.ts'
export type { LoggedEvent, LoggedEventBody } from './webhooks/event-log.ts'
