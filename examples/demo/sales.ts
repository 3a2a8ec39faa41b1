import type { Invoice, Project, Proposal } from 'business-api'
import { type Customer, DAY_MS, type Making } from './data.ts'
import type { Currency } from './organizations.ts'

/** An invoice as old as its id, settled as far as its age makes likely. What was paid counts as the customer's revenue. */
export function makeInvoice(customer: Customer, making: Making): Invoice {
  const { random, ids, number, time } = making
  const { currency } = customer
  const dueAt = time() + random.pick([14, 30, 45]) * DAY_MS
  const status = invoiceStatus(dueAt, making)
  // Whole numbers of the smallest unit: floating point has no place in money.
  const unit = 10 ** currency.decimals
  const total = random.between(120, 9800) * unit + (random.chance(0.4) ? random.between(1, unit - 1) : 0)
  const paid = amountPaid(status, total, making)
  customer.revenue += paid
  return {
    id: ids('inv'),
    number: number('INV'),
    status,
    currency: currency.code,
    issueDate: new Date(time()).toISOString(),
    dueDate: new Date(dueAt).toISOString(),
    total: toDecimal(total, currency),
    amountPaid: toDecimal(paid, currency),
    amountDue: toDecimal(total - paid, currency),
  }
}

function invoiceStatus(dueAt: number, { random, time, now }: Making): string {
  if (now - time() < 3 * DAY_MS) return random.chance(0.5) ? 'draft' : 'issued'
  if (dueAt < now) {
    return random.weigh([
      ['paid', 85],
      ['overdue', 9],
      ['void', 6],
    ])
  }
  return random.weigh([
    ['issued', 45],
    ['paid', 35],
    ['partially_paid', 20],
  ])
}

function amountPaid(status: string, total: number, { random }: Making): number {
  if (status === 'paid') return total
  const isPartly = status === 'partially_paid' || (status === 'overdue' && random.chance(0.3))
  return isPartly ? Math.floor((total * random.between(2, 8)) / 10) : 0
}

function toDecimal(amount: number, { decimals }: Currency): string {
  const digits = String(amount).padStart(decimals + 1, '0')
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** A proposal that the customer has answered unless it is recent. */
export function makeProposal(
  { client, currency }: Customer,
  services: readonly [string, ...string[]],
  { random, ids, number, time, now }: Making,
): Proposal {
  const age = now - time()
  return {
    id: ids('prop'),
    number: number('PROP'),
    title: `${random.pick(services)} for ${client.business.name}`,
    status: random.weigh([
      ['draft', age < 7 * DAY_MS ? 5 : 0],
      ['sent', age < 30 * DAY_MS ? 6 : 1],
      ['accepted', 5],
      ['rejected', 2],
    ]),
    version: random.weigh([
      [1, 6],
      [2, 3],
      [3, 1],
    ]),
    total: random.between(10, 400) * 50,
    monthlyTotal: random.chance(0.4) ? random.between(5, 90) * 10 : 0,
    currency: currency.code,
  }
}

/** A project that has ended if it began long ago. */
export function makeProject(
  { client }: Customer,
  services: readonly [string, ...string[]],
  { random, ids, time, now }: Making,
): Project {
  const isOld = now - time() > 120 * DAY_MS
  return {
    id: ids('proj'),
    name: `${random.pick(services)}, ${client.business.name}`,
    status: random.weigh([
      ['active', isOld ? 1 : 7],
      ['on_hold', 1],
      ['completed', isOld ? 8 : 1],
      ['cancelled', 1],
    ]),
    billingType: random.pick(['fixed', 'hourly', 'retainer']),
    value: random.between(10, 500) * 50,
  }
}
