export {
  createDeliveryLoop,
  type DeliveryLoop,
  type DeliveryStats,
} from './delivery/delivery-loop.ts'
export type { DeliveryLoopOptions } from './delivery/loop-options.ts'
export type { DeliveryCounts } from './delivery/result-writer.ts'
export { createDeliverySlots, type DeliverySlots } from './delivery/slots.ts'
export { receiveWebhook } from './receiver/receive-webhook.ts'
export {
  CONNECTION_FAILED,
  CONNECTION_REFUSED,
  CONNECTION_RESET,
  DESTINATION_REFUSED,
  DNS_FAILED,
  INTERRUPTED,
  INVALID_REQUEST,
  INVALID_RESPONSE,
  SENDER_FAILED,
  type SendErrorCode,
  TIMEOUT,
  TLS_CERTIFICATE_EXPIRED,
  TLS_CLIENT_CERTIFICATE_REQUIRED,
  TLS_FAILED,
  TLS_UNTRUSTED,
  TLS_WRONG_NAME,
} from './sender/send-error.ts'
export { createWebhookSender } from './sender/sender.ts'
export type { WebhookSenderOptions } from './sender/sender-options.ts'
export type { DestinationOptions } from './webhooks/destination.ts'
export { createPublicLookup, type Lookup, type PublicLookupOptions } from './webhooks/dns-lookup.ts'
export type { LoopHealth } from './webhooks/loop-health.ts'
export type {
  ApiKeyExpiringNotice,
  DeliveryFailedNotice,
  EndpointDisabledNotice,
  EndpointFailingNotice,
  EventsKeptNotice,
  Notice,
  RetentionBehindNotice,
  SecretExpiringNotice,
  SecretUnsealedNotice,
} from './webhooks/notices.ts'
export type { ReceivedWebhook, ReceiveWebhookOptions } from './webhooks/received-webhook.ts'
export { signWebhook, verifyWebhook } from './webhooks/signature.ts'
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
export type {
  AttemptTimings,
  WebhookAnswer,
  WebhookRequest,
  WebhookSender,
} from './webhooks/webhook-sender.ts'
