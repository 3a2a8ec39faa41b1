export type { Service } from './service.ts'
export {
  type CapturedWebhooks,
  type CaptureWebhooksOptions,
  type CapturingSettings,
  captureWebhooks,
  type EventOf,
  type FailedWebhook,
} from './testing/capture-webhooks.ts'
export { createFakeClock, type FakeClock } from './testing/fake-clock.ts'
export { type WaitForDeliveryOptions, waitForDelivery } from './testing/wait-for-delivery.ts'
