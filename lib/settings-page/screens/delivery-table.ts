import type { Delivery } from '../../webhooks/deliveries.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context } from '../context.ts'
import { type Content, type Html, html } from '../html.ts'
import { table } from '../views/table.ts'
import { answerText, deliveryState } from './delivery-words.ts'
import { nameOf } from './endpoint-words.ts'

/**
 * Deliveries as rows.
 *
 * @param endpoints of the organization; null leaves the column out
 */
export function deliveryTable(
  context: Context,
  deliveries: readonly Delivery[],
  endpoints: readonly WebhookEndpoint[] | null,
): Html {
  const { t, link, format } = context
  const names = new Map(endpoints?.map((endpoint) => [endpoint.id, nameOf(endpoint)]))
  const endpointCell = ({ endpointId }: Delivery) => names.get(endpointId) ?? t`Removed`
  return table<Delivery>(
    t`Deliveries`,
    [
      {
        head: t`Event`,
        cell: ({ id, type }) => html`<a href="${link(`/deliveries/${id}`)}">${breakable(type)}</a>`,
      },
      { head: t`Created`, isPlain: true, cell: ({ createdAt }) => format.time(createdAt) },
      ...(endpoints === null ? [] : [{ head: t`Endpoint`, isPlain: true, cell: endpointCell }]),
      { head: t`State`, isPlain: true, cell: (delivery: Delivery) => deliveryState(t, delivery) },
      { head: t`Attempts`, cell: ({ attempts }: Delivery) => format.number(attempts) },
      {
        head: t`Last answer`,
        cell: ({ lastStatus, lastError }: Delivery) => answerText(t, lastStatus, lastError),
      },
      {
        head: t`Next attempt`,
        cell: ({ dueAt }: Delivery) => dueText(context, dueAt),
      },
    ],
    deliveries,
  )
}

/** A type of event that a narrow column breaks behind its dot, not inside a word. */
function breakable(type: string): Content {
  const [resource, event] = type.split('.', 2)
  return event === undefined ? type : html`${resource}.<wbr>${event}`
}

/** Returns whether a delivery will soon change by itself, so that the page is worth reading again. */
export function isMoving(deliveries: readonly Pick<Delivery, 'state'>[]): boolean {
  return deliveries.some(({ state }) => state === 'pending' || state === 'in_flight')
}

/** The time of the next attempt. A delivery that is already due waits for a free worker, or for a paused endpoint. */
export function dueText({ t, format, now }: Context, dueAt: string | null): Content {
  if (dueAt === null) return t`None`
  return Date.parse(dueAt) <= now ? t`As soon as possible` : format.time(dueAt)
}
