import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import type { Delivery } from '../../lib/webhooks/deliveries.ts'
import { claim, newOrganization, publish, record } from './_stores.ts'

export function idsOf(deliveries: readonly { readonly id: string }[]): string[] {
  return deliveries.map(({ id }) => id)
}

/** Creates a function that sets up an organization with an endpoint for all types. */
export function createSetUp(open: () => BusinessApiStore) {
  return async function setUp(wrap: (store: BusinessApiStore) => BusinessApiStore = (store) => store) {
    const store = wrap(open())
    const { endpoints, deliveries } = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
    })
    const organizationId = newOrganization()
    const register = async () => (await endpoints.register(organizationId, { url: 'https://x.example/' })).id
    return { store, endpoints, deliveries, organizationId, register, endpointId: await register() }
  }
}

export type SetUp = Awaited<ReturnType<ReturnType<typeof createSetUp>>>

/** Publishes events one after another, so that the order of their deliveries is known. */
export async function publishSeveral({ store, organizationId }: SetUp, count: number): Promise<string[]> {
  const eventIds: string[] = []
  while (eventIds.length < count) {
    eventIds.push(await publish(store, organizationId))
    await nextMillisecond()
  }
  return eventIds
}

/** Delivery ids are only in the order of the events if those are from different milliseconds. */
export async function nextMillisecond(): Promise<void> {
  const now = Date.now()
  while (Date.now() === now) await new Promise((resolve) => setImmediate(resolve))
}

/** Creates skipped deliveries of each event to each endpoint, and returns the endpoints. */
export async function skipMany(given: SetUp, events: number, endpoints: number): Promise<string[]> {
  const { store, organizationId, register } = given
  const endpointIds = [given.endpointId]
  while (endpointIds.length < endpoints) endpointIds.push(await register())
  for (const endpointId of endpointIds) await given.endpoints.disable(organizationId, endpointId)
  await Promise.all(Array.from({ length: events }, () => publish(store, organizationId)))
  return endpointIds
}

/** Creates a delivery in each state, and returns their ids by state. */
export async function makeOfEachState(given: SetUp): Promise<Record<Delivery['state'], string>> {
  const { store, organizationId, endpoints, endpointId, deliveries } = given
  const made: Partial<Record<Delivery['state'], string>> = {}
  const newest = async () => (await deliveries.list(organizationId)).data[0]?.id ?? ''
  for (const outcome of ['delivered', 'failed'] as const) {
    await publishSeveral(given, 1)
    await record(store, await claim(store, organizationId), outcome)
    made[outcome] = await newest()
  }
  await endpoints.disable(organizationId, endpointId)
  await publishSeveral(given, 1)
  made.skipped = await newest()
  await endpoints.enable(organizationId, endpointId)
  await publishSeveral(given, 1)
  await claim(store, organizationId)
  made.sending = await newest()
  await publishSeveral(given, 1)
  made.pending = await newest()
  const { delivered = '', failed = '', skipped = '', sending = '', pending = '' } = made
  return { delivered, failed, skipped, sending, pending, cancelled: '' }
}
