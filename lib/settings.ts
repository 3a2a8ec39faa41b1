export type { ApiKeySettings, CreatedApiKey, NewApiKey } from './settings/api-keys.ts'
export {
  createDeveloperSettings,
  type DeveloperSettings,
  type DeveloperSettingsOptions,
} from './settings/developer-settings.ts'
export type { RateLimitSettings } from './settings/rate-limits.ts'
