import type { DeliveryState } from './deliveries.ts'

// The counts shown by the CLI and the settings page before you disable or remove an endpoint.

/** Maximum number of deliveries to count. No confirmation needs a higher number. */
export const DELIVERY_COUNT_MAX = 10_000

/** States worth recovering. These deliveries were neither received by the subscriber nor cancelled on purpose. */
export const RECOVERABLE: readonly DeliveryState[] = ['failed', 'skipped']

/** The deliveries affected by disabling or removing an endpoint. Counting stops at {@link DELIVERY_COUNT_MAX}. */
export interface EndpointOutlook {
  /** Number of pending deliveries. Doesn't include in-flight attempts because we can't stop those. */
  readonly waiting: number
  /** Number of deliveries that can be recovered. */
  readonly recoverable: number
}

/** The part of the developer settings needed to count deliveries. */
export interface CountingSettings {
  readonly deliveries: {
    count(
      organizationId: string,
      query: { readonly endpointId: string; readonly states: readonly DeliveryState[] },
    ): Promise<number>
  }
}

/** Counts the deliveries that disabling or removing an endpoint would affect. */
export async function readOutlook(
  { deliveries }: CountingSettings,
  organizationId: string,
  endpointId: string,
): Promise<EndpointOutlook> {
  const count = (states: readonly DeliveryState[]): Promise<number> =>
    deliveries.count(organizationId, { endpointId, states })
  const [waiting, recoverable] = await Promise.all([count(['pending']), count(RECOVERABLE)])
  return { waiting, recoverable }
}
