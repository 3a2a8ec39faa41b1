import type { BusinessStore, Creation } from 'business-api'
import type { OrganizationData } from './data.ts'

/** Statements under way at once: enough to keep the store's ten connections busy. */
const WIDTH = 32

/**
 * Writes an organization's data through the store's own verbs. The past is written without events: nobody is told of
 * an invoice that was paid half a year ago.
 *
 * @param onWritten called after each record
 */
export async function fillOrganization(
  store: BusinessStore,
  organizationId: string,
  data: OrganizationData,
  onWritten: () => void,
): Promise<void> {
  async function write<Item>(
    create: (creation: Creation<Item>) => Promise<{ readonly outcome: string }>,
    record: Item,
  ): Promise<void> {
    const { outcome } = await create({ organizationId, record, events: [], idempotency: null })
    if (outcome !== 'created') throw new Error(`Cannot fill the store: a record was answered '${outcome}'`)
    onWritten()
  }

  await inParallel(data.clients, (client) => write(store.clients.create, client))
  // Only now: a lead is of a business that exists.
  await inParallel(data.leads, (lead) => write(store.leads.create, lead))
  await inParallel(data.invoices, (invoice) => write(store.invoices.create, invoice))
  await inParallel(data.proposals, (proposal) => write(store.proposals.create, proposal))
  await inParallel(data.projects, (project) => write(store.projects.create, project))
}

/** How many records {@link fillOrganization} will write. */
export function countRecords(data: OrganizationData): number {
  return Object.values(data).reduce((sum, records: readonly unknown[]) => sum + records.length, 0)
}

async function inParallel<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const waiting = items.values()
  const workOff = async (): Promise<void> => {
    for (const item of waiting) await work(item)
  }
  await Promise.all(Array.from({ length: WIDTH }, workOff))
}
