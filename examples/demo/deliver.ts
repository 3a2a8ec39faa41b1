import { randomBytes } from 'node:crypto'
import type { BusinessApiStore, EventType } from 'business-api-kit'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createDeliveryLoop, createDeliverySlots, createWebhookSender } from 'business-api-kit/webhooks'
import type { Ending } from './ending.ts'
import type { Subscriber } from './subscriber.ts'
import { DAY_MS } from './year.ts'

/** For development, since the subscribers on this machine use plain HTTP. */
const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }

/** Returns the keys for sealing signing secrets from the environment, or generates one for this run. */
export function readSecretKeys(): readonly string[] {
  const given = process.env.BUSINESS_API_SECRET_KEYS
  return given ? given.split(',') : [randomBytes(32).toString('base64')]
}

/** Additional endpoints, each with the events for one of the organization's programs. */
const PROGRAMS: Readonly<Record<string, readonly EventType[]>> = {
  Accounting: ['invoice.issued', 'invoice.paid', 'invoice.overdue', 'payment.received'],
  CRM: ['client.created', 'lead.created', 'lead.stage_changed', 'proposal.accepted', 'proposal.rejected'],
}

/**
 * Registers the subscriber for an organization, like an administrator would in the developer settings.
 *
 * @param hasPrograms whether to also register an endpoint for each of the organization's programs
 */
export async function subscribe(
  store: BusinessApiStore,
  organizationId: string,
  subscriber: Subscriber,
  secretKeys: readonly string[],
  hasPrograms: boolean,
): Promise<void> {
  // The organization has been using webhooks for two months.
  const clock = (): number => Date.now() - 60 * DAY_MS
  const { endpoints } = createDeveloperSettings(store, { ...DEVELOPMENT, secretKeys, clock })
  const register = async (path: string, description: string, types: readonly EventType[] | null) => {
    const { secret } = await endpoints.register(organizationId, {
      url: subscriber.urlOf(path),
      description,
      types,
    })
    subscriber.setSecret(path, secret)
  }
  await register(organizationId, 'Demo subscriber', null)
  if (!hasPrograms) return
  for (const [name, types] of Object.entries(PROGRAMS))
    await register(`${organizationId}/${name.toLowerCase()}`, name, types)
}

/** Delivers published events until the demo ends. @param stores the stores of the shards. Each one has its own loop */
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
