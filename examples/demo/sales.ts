import type { LeadStage } from 'business-api-kit/platform'
import type { Currency } from './organizations.ts'
import { type Customer, DAY_MS, type Work } from './year.ts'

// Leads, proposals, projects and invoices of one customer. The older they are, the further they have progressed.

/** Creates a lead. Unless it's recent, it has been won or lost. */
export async function followLead(work: Work, { client }: Customer): Promise<void> {
  const { organizationId, platform, random, time, now } = work
  const { id: leadId } = await platform.leads.create(organizationId, {
    businessId: client.business.id,
    leadScore: random.chance(0.8) ? random.between(5, 98) : null,
    expectedValue: random.chance(0.85) ? random.between(8, 400) * 50 : null,
  })
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
  const stage = random.weigh<LeadStage>(isRecent ? open : [...closed, ...open])
  if (stage === 'won') await platform.leads.convert(organizationId, { leadId })
  else if (stage !== 'new') await platform.leads.setStage(organizationId, { leadId, stage })
}

/** Creates a proposal. Unless it's recent, the customer has accepted or rejected it. */
export async function makeOffer(work: Work, { client, currency }: Customer): Promise<void> {
  const { organizationId, profile, platform, random, time, now } = work
  const { proposals } = platform
  const { id: proposalId } = await proposals.create(organizationId, {
    title: `${random.pick(profile.services)} for ${client.business.name}`,
    currency: currency.code,
    total: random.between(10, 400) * 50,
    monthlyTotal: random.chance(0.4) ? random.between(5, 90) * 10 : 0,
  })
  const revisions = random.weigh([
    [0, 6],
    [1, 3],
    [2, 1],
  ])
  for (let revision = 0; revision < revisions; revision++) {
    await proposals.revise(organizationId, { proposalId, total: random.between(10, 400) * 50 })
  }
  const age = now - time()
  const status = random.weigh([
    ['draft', age < 7 * DAY_MS ? 5 : 0],
    ['sent', age < 30 * DAY_MS ? 6 : 1],
    ['accepted', 5],
    ['rejected', 2],
  ])
  if (status === 'draft') return
  await proposals.send(organizationId, { proposalId })
  if (status === 'accepted') {
    await proposals.accept(organizationId, { proposalId, signedBy: `The owner of ${client.business.name}` })
  }
  if (status === 'rejected') await proposals.reject(organizationId, { proposalId })
}

/** Creates a project. If it's old, it has ended. */
export async function buildProject(work: Work, { client }: Customer): Promise<void> {
  const { organizationId, profile, platform, random, time, now } = work
  const { projects } = platform
  const { id: projectId } = await projects.create(organizationId, {
    name: `${random.pick(profile.services)}, ${client.business.name}`,
    billingType: random.pick(['fixed', 'hourly', 'retainer']),
    value: random.between(10, 500) * 50,
  })
  const isOld = now - time() > 120 * DAY_MS
  const end = random.weigh<'hold' | 'complete' | 'cancel' | null>([
    [null, isOld ? 1 : 7],
    ['hold', 1],
    ['complete', isOld ? 8 : 1],
    ['cancel', 1],
  ])
  if (end !== null) await projects[end](organizationId, { projectId })
}

/** Creates an invoice with payments that depend on its age. Payments count toward the customer's revenue. */
export async function chaseInvoice(work: Work, customer: Customer): Promise<void> {
  const { organizationId, platform, random, time, now } = work
  const { invoices } = platform
  const { currency } = customer
  const dueAt = time() + random.pick([14, 30, 45]) * DAY_MS
  const total = someAmount(work, currency)
  const { id: invoiceId } = await invoices.create(organizationId, {
    currency: currency.code,
    total: toDecimal(total, currency),
    dueDate: new Date(dueAt),
  })
  if (now - time() < 3 * DAY_MS && random.chance(0.5)) return
  await invoices.issue(organizationId, { invoiceId })
  const paid = amountPaid(work, total, dueAt)
  if (paid === null) await invoices.void(organizationId, { invoiceId })
  if (!paid) return
  customer.revenue += paid
  const receivedAt = new Date(Math.min(now, dueAt - random.between(0, 10) * DAY_MS))
  await invoices.recordPayment(organizationId, { invoiceId, amount: toDecimal(paid, currency), receivedAt })
}

/** Returns a whole number of the smallest unit, because you shouldn't use floating point for money. */
function someAmount({ random }: Work, { decimals }: Currency): number {
  const unit = 10 ** decimals
  return random.between(120, 9800) * unit + (random.chance(0.4) ? random.between(1, unit - 1) : 0)
}

/** Returns a random amount paid so far, or `null` if the invoice was written off. */
function amountPaid({ random, now }: Work, total: number, dueAt: number): number | null {
  const part = Math.floor((total * random.between(2, 8)) / 10)
  if (dueAt < now) {
    return random.weigh([
      [total, 85],
      [0, 6],
      [part, 3],
      [null, 6],
    ])
  }
  return random.weigh([
    [0, 45],
    [total, 35],
    [part, 20],
  ])
}

/** Formats an amount in the smallest unit like the API does. */
export function toDecimal(amount: number, { decimals }: Currency): string {
  const digits = String(amount).padStart(decimals + 1, '0')
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}
