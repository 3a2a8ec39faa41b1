export {
  type CapturedWebhooks,
  type CaptureWebhooksOptions,
  type CapturingSettings,
  captureWebhooks,
  type EventOf,
} from './testing/capture-webhooks.ts'
export { createFakeClock, type FakeClock } from './testing/fake-clock.ts'
export type { StoreUnderTest } from './testing/store-contract/harness.ts'
export {
  describeStoreContract,
  type StoreCapability,
  type StoreContractOptions,
  type TestRunner,
} from './testing/store-contract.ts'
export { type WaitForDeliveryOptions, waitForDelivery } from './testing/wait-for-delivery.ts'
