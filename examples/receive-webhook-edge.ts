// A subscriber on an edge runtime: verifies each webhook with Web Crypto, hands the event to a queue, and answers 2xx once the queue
// has the event. Nothing of Node is loaded. The form is that of Cloudflare Workers, whose bindings are the second argument; elsewhere
// the host passes the bindings:
//
//   Deno.serve((request) => subscriber.fetch(request, bindings))
//   Bun.serve({ fetch: (request) => subscriber.fetch(request, bindings) })

import { type Event, receiveWebhook, WebhookError } from 'business-api-kit/client'

/** The surroundings of the subscriber. */
export interface Bindings {
  /** The secret shown when the endpoint was registered; during a rotation both secrets, separated by a comma. */
  readonly SIGNING_SECRET: string
  /**
   * A queue, or a table with the event's id as its key. Every attempt of a delivery carries the same event id: the consumer
   * skips an id that was handled before.
   */
  readonly EVENTS: { send(event: Event): Promise<unknown> }
}

const subscriber = {
  /** Anything but 2xx, and an answer that takes 10 seconds, has the webhook sent again. */
  async fetch(request: Request, { SIGNING_SECRET, EVENTS }: Bindings): Promise<Response> {
    try {
      const { event } = await receiveWebhook(request, { secret: SIGNING_SECRET.split(',') })
      await EVENTS.send(event)
      return new Response(null, { status: 204 })
    } catch (error) {
      if (error instanceof WebhookError) {
        console.error(`Refused a webhook: ${error.code}`)
        return new Response(null, { status: error.status })
      }
      console.error('Cannot take a webhook:', error)
      return new Response(null, { status: 500 })
    }
  },
}

export default subscriber
