import type { ApiKey } from '../access/api-keys.ts'
import type { WebhookEndpoint } from './endpoints.ts'

/** Asks for the state of an organization's settings at a glance. */
export interface OverviewRequest {
  /** How soon a key must expire to be listed, in milliseconds. */
  readonly keysWithinMs: number
  /** The age of the deliveries that are counted, in milliseconds. */
  readonly deadLettersWithinMs: number
  /** Keys and endpoints listed at most, each. */
  readonly limit: number
}

/** The state of an organization's settings: first of all, everything that needs an administrator. */
export interface Overview {
  /** Whether the organization has an API key in force. */
  readonly hasApiKey: boolean
  /** Whether a key of the organization was ever used. */
  readonly hasUsedApiKey: boolean
  /** Whether the organization has a webhook endpoint. */
  readonly hasEndpoint: boolean
  /** Disabled endpoints and endpoints whose last attempt failed, newest first. */
  readonly troubledEndpoints: readonly WebhookEndpoint[]
  /** Keys in force that will expire soon and have no successor, by expiry. */
  readonly expiringApiKeys: readonly ApiKey[]
  /** Dead-lettered deliveries to present endpoints, created lately, counted to at most {@link OVERVIEW_COUNT_MAX}. */
  readonly deadLetters: number
}

/** The greatest count of an overview. */
export const OVERVIEW_COUNT_MAX = 1000

/** What a store must do for the overview. */
export interface OverviewStore {
  /** Reads the overview of an organization in one round trip. */
  read(organizationId: string, request: OverviewRequest): Promise<Overview>
}
