import type { DeliveryState } from './deliveries.ts'

// The numbers that the command line and settings page show before disabling or removing an endpoint.

/** Maximum number of deliveries to count. No confirmation depends on a larger number. */
export const DELIVERY_COUNT_MAX = 10_000

/** States that can be recovered, because the subscriber didn't receive it and no administrator cancelled it. */
export const RECOVERABLE: readonly DeliveryState[] = ['failed', 'skipped']

/** The deliveries affected if an endpoint is disabled or removed. Counts stop at {@link DELIVERY_COUNT_MAX}. */
export interface EndpointOutlook {
  /** Pending deliveries. Attempts in flight aren't included since they can't be stopped. */
  readonly waiting: number
  /** Deliveries that could be sent again. */
  readonly recoverable: number
}

/** The part of the developer settings that counts deliveries. */
export interface CountingSettings {
  readonly deliveries: {
    count(
      organizationId: string,
      query: { readonly endpointId: string; readonly states: readonly DeliveryState[] },
    ): Promise<number>
  }
}

/** Counts the deliveries of an endpoint that would be affected. */
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
