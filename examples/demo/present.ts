import { randomBytes } from 'node:crypto'
import type { BusinessApiStore } from 'business-api-kit'
import { createPlatform } from 'business-api-kit/platform'
import type { Ending } from './ending.ts'
import { toDecimal } from './sales.ts'
import { type Customer, DAY_MS, type Work } from './year.ts'

/** Pause between two acts in milliseconds, in the first round, which shows every type of event, and later. */
const PAUSE_MS = 2000
const LATER_PAUSE_MS = 30_000

/**
 * Keeps some business going while the demo is running. Each organization repeats the same acts, so you can see every
 * type of event within half a minute. After that, it's about as busy as in the past day.
 */
export function keepBusinessGoing(store: BusinessApiStore, past: readonly Work[], ending: Ending): void {
  const works = past.map((work) => continueWork(store, work))
  let turn = 0
  let acting: Promise<unknown> = Promise.resolve()
  function next(): NodeJS.Timeout {
    return setTimeout(
      () => {
        const place = turn++
        // Runs the acts one after another. If one fails, for example because the database is gone, the next one still
        // runs.
        acting = acting.then(() => Promise.allSettled(works.map((work) => play(work, place))))
        timer = next()
      },
      turn < ACTS.length ? PAUSE_MS : LATER_PAUSE_MS,
    )
  }
  let timer = next()
  ending.add(async () => {
    clearTimeout(timer)
    await acting
  })
}

/** Returns the work of an organization at the current time, after its year. */
export function continueWork(store: BusinessApiStore, past: Work): Work {
  return { ...past, platform: createPlatform(store), time: Date.now }
}

/** Runs one act with a random customer. @param turn the number of the act. The round starts over after the last one */
export function play(work: Work, turn: number): Promise<unknown> {
  const act = ACTS[turn % ACTS.length] ?? settleInvoice
  return act(work, work.random.pick(work.customers))
}

type Act = (work: Work, customer: Customer) => Promise<unknown>

const ACTS: readonly Act[] = [
  settleInvoice,
  signProposal,
  finishProject,
  qualifyLead,
  refuseProposal,
  missDueDate,
  gainCustomer,
  convertLead,
  helpCustomer,
  advertise,
  measureAdvertising,
]

/** invoice.issued, payment.received twice, invoice.paid. */
async function settleInvoice(
  { organizationId, platform, random }: Work,
  { currency }: Customer,
): Promise<void> {
  const { invoices } = platform
  const total = random.between(100, 5000) * 10 ** currency.decimals
  const { id: invoiceId } = await invoices.create(organizationId, {
    currency: currency.code,
    total: toDecimal(total, currency),
    dueDate: new Date(Date.now() + 30 * DAY_MS),
  })
  await invoices.issue(organizationId, { invoiceId })
  const deposit = Math.floor(total / 3)
  for (const amount of [deposit, total - deposit]) {
    await invoices.recordPayment(organizationId, { invoiceId, amount: toDecimal(amount, currency) })
  }
}

/** proposal.created, proposal.sent, proposal.accepted. */
async function signProposal(work: Work, customer: Customer): Promise<void> {
  const proposalId = await sendProposal(work, customer)
  const signedBy = `The owner of ${customer.client.business.name}`
  await work.platform.proposals.accept(work.organizationId, { proposalId, signedBy })
}

/** proposal.created, proposal.sent, proposal.rejected. */
async function refuseProposal(work: Work, customer: Customer): Promise<void> {
  const proposalId = await sendProposal(work, customer)
  await work.platform.proposals.reject(work.organizationId, { proposalId })
}

async function sendProposal(
  { organizationId, profile, platform, random }: Work,
  { client, currency }: Customer,
): Promise<string> {
  const { id: proposalId } = await platform.proposals.create(organizationId, {
    title: `${random.pick(profile.services)} for ${client.business.name}`,
    currency: currency.code,
    total: random.between(10, 400) * 50,
  })
  await platform.proposals.send(organizationId, { proposalId })
  return proposalId
}

/** project.completed. */
async function finishProject(
  { organizationId, profile, platform, random }: Work,
  { client }: Customer,
): Promise<void> {
  const { id: projectId } = await platform.projects.create(organizationId, {
    name: `${random.pick(profile.services)}, ${client.business.name}`,
    billingType: 'fixed',
    value: random.between(10, 500) * 50,
  })
  await platform.projects.complete(organizationId, { projectId })
}

/** lead.created, lead.stage_changed. */
async function qualifyLead({ organizationId, platform, random }: Work, { client }: Customer): Promise<void> {
  const businessId = client.business.id
  const leadScore = random.between(40, 98)
  const { id: leadId } = await platform.leads.create(organizationId, { businessId, leadScore })
  await platform.leads.setStage(organizationId, { leadId, stage: 'qualified' })
}

/** invoice.issued, invoice.overdue. */
async function missDueDate({ organizationId, platform }: Work, { currency }: Customer): Promise<void> {
  const { id: invoiceId } = await platform.invoices.create(organizationId, {
    currency: currency.code,
    total: toDecimal(75 * 10 ** currency.decimals, currency),
    issueDate: new Date(Date.now() - 31 * DAY_MS),
    dueDate: new Date(Date.now() - DAY_MS),
  })
  await platform.invoices.issue(organizationId, { invoiceId })
  await platform.invoices.markOverdue(organizationId)
}

/** business.created, client.created. */
async function gainCustomer({ organizationId, profile, platform, random }: Work): Promise<void> {
  const { suffix, category } = random.pick(profile.trades)
  await platform.clients.create(organizationId, { name: `New ${suffix}`, category })
}

/** business.created, lead.created, lead.stage_changed, client.created. */
async function convertLead({ organizationId, profile, platform, random }: Work): Promise<void> {
  const { suffix, category } = random.pick(profile.trades)
  const { id: businessId } = await platform.businesses.create(organizationId, {
    name: `Young ${suffix}`,
    category,
  })
  const { id: leadId } = await platform.leads.create(organizationId, { businessId })
  await platform.leads.convert(organizationId, { leadId })
}

// --- Records that we only publish events about ---

/** support.ticket_created, support.ticket_status_changed. */
async function helpCustomer({ organizationId, platform }: Work, { client }: Customer): Promise<void> {
  const ticketId = newId('tic')
  const subject = `${client.business.name} cannot download an invoice`
  await platform.publish(organizationId, 'support.ticket_created', { ticketId, subject, status: 'open' })
  await platform.publish(organizationId, 'support.ticket_status_changed', {
    ticketId,
    status: 'resolved',
    previousStatus: 'open',
  })
}

/** All six events about marketing campaigns. */
async function advertise({ organizationId, platform }: Work): Promise<void> {
  const campaign = { campaignId: newId('cmp'), name: 'Spring offer' }
  const { publish } = platform
  await publish(organizationId, 'marketing.campaign_created', { ...campaign, status: 'draft' })
  await publish(organizationId, 'marketing.campaign_submitted', {
    ...campaign,
    status: 'submitted',
    provider: 'google_ads',
  })
  await publish(organizationId, 'marketing.campaign_activated', { ...campaign, status: 'active' })
  await publish(organizationId, 'marketing.campaign_paused', { ...campaign, status: 'paused' })
  await publish(organizationId, 'marketing.campaign_completed', { ...campaign, status: 'completed' })
  await publish(organizationId, 'marketing.campaign_failed', {
    campaignId: newId('cmp'),
    name: 'Summer offer',
    status: 'failed',
    reason: 'The provider refused the budget.',
  })
}

/** marketing.lead_captured, marketing.attribution_captured, marketing.provider_sync_completed. */
async function measureAdvertising({ organizationId, platform }: Work, { client }: Customer): Promise<void> {
  const campaignId = newId('cmp')
  const now = new Date().toISOString()
  await platform.publish(organizationId, 'marketing.lead_captured', {
    captureId: newId('cap'),
    campaignId,
    source: 'newsletter',
    businessId: client.business.id,
    leadId: null,
  })
  await platform.publish(organizationId, 'marketing.attribution_captured', {
    attributionId: newId('att'),
    campaignId,
    leadId: null,
    source: 'newsletter',
    medium: 'email',
    capturedAt: now,
  })
  await platform.publish(organizationId, 'marketing.provider_sync_completed', {
    syncId: newId('syn'),
    provider: 'google_ads',
    startedAt: now,
    completedAt: now,
    records: 318,
  })
}

function newId(kind: string): string {
  return `${kind}_${randomBytes(6).toString('hex')}`
}
