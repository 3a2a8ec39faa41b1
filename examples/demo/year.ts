import { type BusinessApiStore, type Client, createIds } from 'business-api-kit'
import { createPlatform, type Platform } from 'business-api-kit/platform'
import type { Currency, Profile, Trade } from './organizations.ts'
import { createRandom, type Random } from './random.ts'
import { buildProject, chaseInvoice, followLead, makeOffer } from './sales.ts'

/** A customer, with some information that only the demo needs. */
export interface Customer {
  readonly client: Client
  readonly currency: Currency
  /** The money received in the currency's smallest unit. */
  revenue: number
}

/** An organization using the platform at the current time of the demo's calendar. */
export interface Work {
  readonly organizationId: string
  readonly profile: Profile
  readonly platform: Platform
  readonly random: Random
  readonly customers: [Customer, ...Customer[]]
  /** Milliseconds since 1970. */
  readonly time: () => number
  /** The actual time in milliseconds since 1970, used to determine ages. */
  readonly now: number
}

/** A year in the life of an organization. */
export interface Year {
  /** The number of business days. `onDay` is called once for each. */
  readonly days: number
  /** Makes the calls for each day of the year, starting with the oldest. */
  live(onDay: () => void): Promise<Work>
}

export const DAY_MS: number = 24 * 60 * 60 * 1000
const YEAR_MS = 365 * DAY_MS

/**
 * Plans the year before `now`, in which new customers arrive one by one and business with existing ones continues.
 * Records are created with the clock of their day, so their ids, dates and numbers match it.
 */
export function planYear(
  store: BusinessApiStore,
  organizationId: string,
  profile: Profile,
  now: number,
): Year {
  const stepMs = Math.floor(YEAR_MS / profile.clients)
  let time = now - YEAR_MS
  const clock = (): number => time
  const platform = createPlatform(store, { clock, ids: createIds(clock) })
  const random = createRandom(profile.seed)
  const names = nameBusinesses(profile, random)

  async function live(onDay: () => void): Promise<Work> {
    const customers: Customer[] = []
    const base = { organizationId, profile, platform, random, time: clock, now }
    for (const [index, { name, trade }] of names.entries()) {
      time = now - YEAR_MS + index * stepMs
      customers.push(await win(base, name, trade))
      const work = { ...base, customers: customers as [Customer, ...Customer[]] }
      await Promise.all(
        HAPPENINGS.map((happening, place) => {
          time += random.between(1, Math.floor(stepMs / 6))
          // Each of these has its own random sequence, since they run at the same time and values mustn't
          // depend on timing.
          const ownRandom = createRandom(profile.seed + index * HAPPENINGS.length + place)
          return happening({ ...work, random: ownRandom }, random.pick(work.customers))
        }),
      )
      onDay()
    }
    const work = { ...base, customers: customers as [Customer, ...Customer[]] }
    time = now
    await closeBooks(work)
    return work
  }

  return { days: names.length, live }
}

/** What can happen on each business day. */
const HAPPENINGS: readonly ((work: Work, customer: Customer) => Promise<void>)[] = [
  async (work, customer) => {
    if (work.random.chance(0.7)) await followLead(work, customer)
  },
  async (work, customer) => {
    if (work.random.chance(0.4)) await makeOffer(work, customer)
  },
  async (work, customer) => {
    if (work.random.chance(0.25)) await buildProject(work, customer)
  },
  async (work, customer) => {
    if (work.random.chance(0.7)) await chaseInvoice(work, customer)
  },
  async (work, customer) => {
    if (work.random.chance(0.7)) await chaseInvoice(work, customer)
  },
]

/** Ends the year. Sets the customers' revenue, makes former customers inactive and marks late invoices as overdue. */
async function closeBooks({ organizationId, platform, random, customers }: Work): Promise<void> {
  for (const { client, currency, revenue } of customers) {
    const clientId = client.id
    const monthlyRevenue = random.chance(0.3) ? random.between(8, 150) * 10 : 0
    if (revenue + monthlyRevenue > 0) {
      const totalRevenue = revenue / 10 ** currency.decimals
      await platform.clients.setRevenue(organizationId, { clientId, totalRevenue, monthlyRevenue })
    }
    if (random.chance(0.12))
      await platform.clients.setStatus(organizationId, { clientId, status: 'inactive' })
  }
  await platform.invoices.markOverdue(organizationId, { limit: 1000 })
}

// --- Customers ---

function nameBusinesses(profile: Profile, random: Random): { name: string; trade: Trade }[] {
  const all = profile.names.flatMap((first) =>
    profile.trades.map((trade) => ({ name: `${first} ${trade.suffix}`, trade })),
  )
  return random.shuffle(all).slice(0, profile.clients)
}

/** Creates a new customer like the web application or the API would. */
export async function win(
  { organizationId, profile, platform, random }: Omit<Work, 'customers'>,
  name: string,
  trade: Trade,
): Promise<Customer> {
  const client = await platform.clients.create(organizationId, {
    name,
    category: random.chance(0.95) ? trade.category : undefined,
    city: random.chance(0.9) ? random.pick(profile.cities) : undefined,
    email: random.chance(0.85) ? `contact@${domainOf(name)}` : undefined,
    phone: random.chance(0.75) ? profile.phonePrefix + String(random.between(100, 999)) : undefined,
  })
  const currency = random.chance(0.8) ? profile.currency : profile.foreignCurrency
  return { client, currency, revenue: 0 }
}

function domainOf(name: string): string {
  const ascii = name.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()
  return `${ascii.replaceAll(' ', '-')}.example`
}
