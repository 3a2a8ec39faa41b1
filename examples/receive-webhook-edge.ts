// A subscriber on an edge runtime. It verifies each webhook with Web Crypto, adds the event to a queue, and responds
// with 2xx once that's done. It doesn't use anything from Node. The exported object is what Cloudflare Workers expects,
// with the bindings as the second argument. On other platforms, pass them yourself:
//
//   Deno.serve((request) => subscriber.fetch(request, bindings))
//   Bun.serve({ fetch: (request) => subscriber.fetch(request, bindings) })

import { type Event, receiveWebhook, WebhookError } from 'business-api-kit/client'

/** The bindings of the subscriber. */
export interface Bindings {
  /** The secret shown when the endpoint was registered. During a rotation, both secrets separated by a comma. */
  readonly SIGNING_SECRET: string
  /**
   * A queue, or a table with the event's id as its key. All attempts of a delivery have the same event id, so the
   * consumer has to skip ids it has already handled.
   */
  readonly EVENTS: { send(event: Event): Promise<unknown> }
}

const subscriber = {
  /** The webhook is sent again if the response isn't 2xx or takes 10 seconds. */
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
