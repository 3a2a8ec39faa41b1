import type { DeliveryState } from './deliveries.ts'

// The numbers behind a question before an act that ends something, the same on the command line and on the settings page.

/** Counts of deliveries end here: no question depends on a larger number. */
export const DELIVERY_COUNT_MAX = 10_000

/** The states that can be recovered: not received by the subscriber, and not cancelled by an administrator. */
export const RECOVERABLE: readonly DeliveryState[] = ['failed', 'skipped']

/** The deliveries that an endpoint loses when it is disabled or removed, each number up to {@link DELIVERY_COUNT_MAX}. */
export interface EndpointOutlook {
  /** Pending deliveries. An attempt under way cannot be taken back, and does not count. */
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

/** Counts what would happen to the deliveries of an endpoint. */
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
