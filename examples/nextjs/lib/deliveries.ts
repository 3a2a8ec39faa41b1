import { createDeliveryLoop, createWebhookSender } from 'business-api-kit/webhooks'
import { kept } from './kept'
import { store } from './store'

/** Delivers webhooks from this process until a signal ends the process. */
export function startDeliveries(): void {
  kept('deliveries', start)
}

function start(): true {
  const sender = createWebhookSender()
  const deliveries = createDeliveryLoop(store, sender, {
    secretKeys: process.env.BUSINESS_API_SECRET_KEYS?.split(','),
  })
  deliveries.start()
  // Next.js ends the process on SIGTERM too; set NEXT_MANUAL_SIG_HANDLE=true where attempts in flight are to end first.
  process.once('SIGTERM', async () => {
    await deliveries.stop()
    await sender.close()
    await store.close()
    if (process.env.NEXT_MANUAL_SIG_HANDLE) process.exit(0)
  })
  return true
}
