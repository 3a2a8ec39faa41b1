import { createDeliveryLoop, createWebhookSender } from 'business-api-kit/webhooks'
import { kept } from './kept'
import { store } from './store'

/** Delivers webhooks from this process until it receives a signal. */
export function startDeliveries(): void {
  kept('deliveries', start)
}

function start(): true {
  const sender = createWebhookSender()
  const deliveries = createDeliveryLoop(store, sender, {
    secretKeys: process.env.BUSINESS_API_SECRET_KEYS?.split(','),
  })
  deliveries.start()
  // Next.js also ends the process on SIGTERM. Set NEXT_MANUAL_SIG_HANDLE=true to let attempts in flight finish first.
  process.once('SIGTERM', async () => {
    await deliveries.stop()
    await sender.close()
    await store.close()
    if (process.env.NEXT_MANUAL_SIG_HANDLE) process.exit(0)
  })
  return true
}
