export type { ApiKey } from './api-keys.ts'
export type { AuditAction, AuditEntry } from './audit.ts'
export type { Delivery, DeliveryAttempt, DeliveryDetails, DeliveryState } from './deliveries.ts'
export type { EndpointState, WebhookEndpoint } from './endpoints.ts'
export type { EventType } from './events.ts'
export type { RateLimit } from './rate-limit.ts'
export type { Scope } from './scopes.ts'
export type {
  ApiKeySettings,
  CreatedApiKey,
  NewApiKey,
  RotateApiKeyOptions,
  RotatedApiKey,
} from './settings/api-keys.ts'
export type { Acting, AuditPage, AuditQuery, AuditSettings } from './settings/audit.ts'
export type {
  DeliveryPage,
  DeliveryQuery,
  DeliverySettings,
  RecoveryFilter,
  RecoveryOptions,
} from './settings/deliveries.ts'
export {
  createDeveloperSettings,
  type DeveloperSettings,
  type DeveloperSettingsOptions,
} from './settings/developer-settings.ts'
export type {
  EndpointSettings,
  EndpointUpdate,
  EndpointWithSecret,
  NewEndpoint,
  RotateSecretOptions,
} from './settings/endpoints.ts'
export type { Page, PageQuery } from './settings/page.ts'
export type { RateLimitSettings } from './settings/rate-limits.ts'
export type { SendTestOptions, TestResult } from './settings/test-delivery.ts'
