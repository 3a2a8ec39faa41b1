import {
  type Business,
  type Client,
  createIds,
  type Ids,
  type Invoice,
  type LeadRecord,
  type Project,
  type Proposal,
} from 'business-api'
import type { Currency, Profile, Trade } from './organizations.ts'
import { createRandom, type Random } from './random.ts'
import { makeInvoice, makeProject, makeProposal } from './sales.ts'

/** A year of an organization's records, each kind oldest first. */
export interface OrganizationData {
  readonly clients: Client[]
  readonly leads: LeadRecord[]
  readonly invoices: Invoice[]
  readonly proposals: Proposal[]
  readonly projects: Project[]
}

/** A client and what the demo alone knows of it. */
export interface Customer {
  readonly client: Client
  readonly currency: Currency
  /** In the currency's smallest unit. */
  revenue: number
}

/** What everything is made with: chance, ids, and the clock that walks through the year. */
export interface Making {
  readonly random: Random
  readonly ids: Ids
  /** When the record under construction came to be, in milliseconds since 1970. */
  readonly time: () => number
  /** The present, which decides what is overdue. */
  readonly now: number
  /** The next number of a kind in the year of `time`: `INV-2026-0042`. */
  readonly number: (kind: string) => string
}

export const DAY_MS: number = 24 * 60 * 60 * 1000
const YEAR_MS = 365 * DAY_MS

/** Makes the records of the year before `now`. Ids carry the time of their record, so newest first looks right. */
export function makeOrganizationData(profile: Profile, now: number): OrganizationData {
  const stepMs = Math.floor(YEAR_MS / profile.clients)
  let stepAt = now - YEAR_MS
  let time = stepAt
  const making: Making = {
    random: createRandom(profile.seed),
    ids: createIds(() => time),
    time: () => time,
    now,
    number: createNumbering(() => time),
  }
  const { random } = making
  const customers: Customer[] = []
  const data: OrganizationData = { clients: [], leads: [], invoices: [], proposals: [], projects: [] }
  for (const { name, trade } of nameBusinesses(profile, random)) {
    time = stepAt
    stepAt += stepMs
    customers.push(makeCustomer(profile, name, trade, making))
    for (const happen of [addLead, addProposal, addProject, addInvoice, addInvoice]) {
      time += random.between(1, Math.floor(stepMs / 6))
      happen(data, random.pick(customers as [Customer]), profile, making)
    }
  }
  data.clients.push(...customers.map(withRevenue))
  return data
}

/** Counts each kind of document from 1 in every year. */
function createNumbering(time: () => number): (kind: string) => string {
  const counts = new Map<string, number>()
  return (kind) => {
    const series = `${kind}-${new Date(time()).getUTCFullYear()}`
    const count = (counts.get(series) ?? 0) + 1
    counts.set(series, count)
    return `${series}-${String(count).padStart(4, '0')}`
  }
}

// --- Customers ---

function nameBusinesses(profile: Profile, random: Random): { name: string; trade: Trade }[] {
  const all = profile.names.flatMap((first) =>
    profile.trades.map((trade) => ({ name: `${first} ${trade.suffix}`, trade })),
  )
  return random.shuffle(all).slice(0, profile.clients)
}

function makeCustomer(profile: Profile, name: string, trade: Trade, making: Making): Customer {
  const { random } = making
  return {
    client: {
      id: making.ids('cli'),
      status: random.chance(0.88) ? 'active' : 'inactive',
      totalRevenue: 0,
      monthlyRevenue: random.chance(0.3) ? random.between(8, 150) * 10 : 0,
      convertedAt: new Date(making.time()).toISOString(),
      business: makeBusiness(profile, name, trade, making),
    },
    currency: random.chance(0.8) ? profile.currency : profile.foreignCurrency,
    revenue: 0,
  }
}

function makeBusiness(profile: Profile, name: string, trade: Trade, { random, ids }: Making): Business {
  return {
    id: ids('biz'),
    name,
    category: random.chance(0.95) ? trade.category : null,
    city: random.chance(0.9) ? random.pick(profile.cities) : null,
    email: random.chance(0.85) ? `contact@${domainOf(name)}` : null,
    phone: random.chance(0.75) ? profile.phonePrefix + String(random.between(100, 999)) : null,
  }
}

function domainOf(name: string): string {
  const ascii = name.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()
  return `${ascii.replaceAll(' ', '-')}.example`
}

function withRevenue({ client, currency, revenue }: Customer): Client {
  return { ...client, totalRevenue: revenue / 10 ** currency.decimals }
}

// --- What happens in the course of the year ---

type Happening = (data: OrganizationData, customer: Customer, profile: Profile, making: Making) => void

const addLead: Happening = (data, customer, _, making) => {
  if (making.random.chance(0.7)) data.leads.push(makeLead(customer, making))
}

const addProposal: Happening = (data, customer, { services }, making) => {
  if (making.random.chance(0.4)) data.proposals.push(makeProposal(customer, services, making))
}

const addProject: Happening = (data, customer, { services }, making) => {
  if (making.random.chance(0.25)) data.projects.push(makeProject(customer, services, making))
}

const addInvoice: Happening = (data, customer, _, making) => {
  if (making.random.chance(0.7)) data.invoices.push(makeInvoice(customer, making))
}

function makeLead({ client }: Customer, { random, ids, time, now }: Making): LeadRecord {
  const leadScore = random.chance(0.8) ? random.between(5, 98) : null
  const open = [
    ['new', 3],
    ['contacted', 3],
    ['qualified', 2],
    ['proposal', 2],
  ] as const
  const closed = [
    ['won', 4],
    ['lost', 5],
  ] as const
  const isRecent = now - time() < 30 * DAY_MS
  return {
    businessId: client.business.id,
    lead: {
      id: ids('lead'),
      stage: random.weigh<string>(isRecent ? open : [...closed, ...open]),
      leadScore,
      scoreBand: bandOf(leadScore),
      expectedValue: random.chance(0.85) ? random.between(8, 400) * 50 : null,
      createdAt: new Date(time()).toISOString(),
    },
  }
}

/** As the platform derives it from the score. */
function bandOf(leadScore: number | null): string | null {
  if (leadScore === null) return null
  if (leadScore < 40) return 'cold'
  return leadScore < 70 ? 'warm' : 'hot'
}
