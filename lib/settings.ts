export type { ApiKeySettings, CreatedApiKey, NewApiKey } from './settings/api-keys.ts'
export type { DeliveryPage, DeliveryQuery, DeliverySettings, RecoveryFilter } from './settings/deliveries.ts'
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
export type { RateLimitSettings } from './settings/rate-limits.ts'
