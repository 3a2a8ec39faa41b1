import { randomBytes } from 'node:crypto'
import type { BusinessApiStore } from 'business-api-kit'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createDeliveryLoop, createDeliverySlots, createWebhookSender } from 'business-api-kit/webhooks'
import type { Ending } from './ending.ts'
import type { Subscriber } from './subscriber.ts'

/** A development host, with subscribers on this machine that speak plain HTTP. */
const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }

/** Reads the keys that seal signing secrets from the environment, or makes a key for this run. */
export function readSecretKeys(): readonly string[] {
  const given = process.env.BUSINESS_API_SECRET_KEYS
  return given ? given.split(',') : [randomBytes(32).toString('base64')]
}

/** Registers the subscriber for an organization, as its administrator would in the developer settings. */
export async function subscribe(
  store: BusinessApiStore,
  organizationId: string,
  subscriber: Subscriber,
  secretKeys: readonly string[],
): Promise<void> {
  const { endpoints } = createDeveloperSettings(store, { ...DEVELOPMENT, secretKeys })
  const url = subscriber.urlOf(organizationId)
  const { secret } = await endpoints.register(organizationId, {
    url,
    description: 'The subscriber of the demo',
  })
  subscriber.setSecret(organizationId, secret)
}

/** Delivers published events until the demo ends. @param stores of the shards, each with a loop */
export function deliver(
  stores: readonly BusinessApiStore[],
  secretKeys: readonly string[],
  ending: Ending,
): void {
  const sender = createWebhookSender(DEVELOPMENT)
  const concurrency = createDeliverySlots()
  const loops = stores.map((store) => createDeliveryLoop(store, sender, { secretKeys, concurrency }))
  for (const loop of loops) loop.start()
  ending.add(async () => {
    await Promise.all(loops.map((loop) => loop.stop({ timeoutMs: 1000 })))
    await sender.close()
  })
}
