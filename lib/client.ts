export {
  ApiError,
  type ApiErrorCode,
  type ApiErrorFacts,
  CONFLICT,
  FORBIDDEN,
  INVALID_REQUEST,
  INVALID_RESPONSE,
  NETWORK_FAILED,
  NOT_FOUND,
  RATE_LIMITED,
  TIMEOUT,
  UNAUTHORIZED,
  UNAVAILABLE,
} from './client/api-error.ts'
export type { ApiClientOptions, CallOptions, Fetch, Wait } from './client/client-options.ts'
export {
  type ApiClient,
  type Creatable,
  type CreateOptions,
  createApiClient,
  type Listable,
} from './client/create-api-client.ts'
export type { List, ListOptions, Page } from './client/lists.ts'
export { receiveWebhook } from './client/receive-webhook.ts'
export { verifyWebhook } from './client/verify-webhook.ts'
export type { Client, CreateClientInput } from './resources/clients.ts'
export type { Event, EventData, EventType } from './resources/event-catalogue.ts'
export type { Invoice } from './resources/invoices.ts'
export type { CreateLeadInput, Lead } from './resources/leads.ts'
export type { Project } from './resources/projects.ts'
export type { Proposal } from './resources/proposals.ts'
export type { ReceivedWebhook, ReceiveWebhookOptions } from './webhooks/received-webhook.ts'
export type { VerifyWebhookOptions } from './webhooks/signature-header.ts'
export {
  SIGNATURE_EXPIRED,
  SIGNATURE_MALFORMED,
  SIGNATURE_MISMATCH,
  SIGNATURE_MISSING,
  WEBHOOK_MALFORMED,
  WEBHOOK_METHOD,
  WEBHOOK_TOO_LARGE,
  WebhookError,
  type WebhookErrorCode,
} from './webhooks/webhook-error.ts'
