export type { DestinationOptions } from './destination.ts'
export { createPublicLookup, type Lookup, type PublicLookupOptions } from './lookup.ts'
export type {
  ApiKeyExpiringNotice,
  DeliveryDeadLetteredNotice,
  EndpointDisabledNotice,
  EndpointFailingNotice,
  Notice,
  SecretExpiringNotice,
} from './notices.ts'
export {
  SIGNATURE_EXPIRED,
  SIGNATURE_MALFORMED,
  SIGNATURE_MISMATCH,
  SIGNATURE_MISSING,
  type SignatureErrorCode,
  signWebhook,
  type VerifyWebhookOptions,
  verifyWebhook,
  WebhookSignatureError,
} from './signature.ts'
export type {
  AttemptTimings,
  WebhookAnswer,
  WebhookRequest,
  WebhookSender,
} from './webhook-sender.ts'
export type { DeliveryCounts } from './webhooks/courier.ts'
export {
  createDeliveryLoop,
  type DeliveryLoop,
  type DeliveryStats,
} from './webhooks/delivery-loop.ts'
export type { DeliveryLoopOptions } from './webhooks/loop-options.ts'
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
  TLS_FAILED,
} from './webhooks/send-error.ts'
export { createWebhookSender } from './webhooks/sender.ts'
export type { WebhookSenderOptions } from './webhooks/sender-options.ts'
