import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { minorUnits } from '../../lib/resources/currencies.ts'
import { describeOnEveryStore, type Host, openPostgres } from './_platform.ts'
import { invoiceIn } from './_records.ts'

// Money is never a float. Payments add up, and an invoice is settled at exactly zero.

describeOnEveryStore((newHost) => {
  test('0.1 + 0.2 settles 0.3 in every currency with decimals', async () => {
    for (const [currency, paid, zero] of [
      ['EUR', '0.30', '0.00'],
      ['TND', '0.300', '0.000'],
      ['CLF', '0.3000', '0.0000'],
    ] as const) {
      const host = await newHost()
      const { id: invoiceId } = await invoiceIn(host, 'issued', { currency, total: '0.3' })
      await host.platform.invoices.recordPayment(host.organizationId, { invoiceId, amount: '0.1' })
      const settled = await host.platform.invoices.recordPayment(host.organizationId, {
        invoiceId,
        amount: '0.2',
      })
      const { status, amountPaid, amountDue } = settled.invoice
      assert.deepEqual([status, amountPaid, amountDue], ['paid', paid, zero])
    }
  })

  test("sums that don't fit into a double are exact", async () => {
    const host = await newHost()
    const total = '999999999999999'
    const { id: invoiceId } = await invoiceIn(host, 'issued', { currency: 'CLF', total })
    const pay = (amount: string) =>
      host.platform.invoices.recordPayment(host.organizationId, { invoiceId, amount })
    assert.equal((await pay('0.0001')).invoice.amountDue, '999999999999998.9999')
    assert.equal((await pay('999999999999998.9998')).invoice.amountDue, '0.0001')
    await assert.rejects(pay('0.0002'), { code: 'overpayment' })
    assert.equal((await pay('0.00010000')).invoice.amountPaid, '999999999999999.0000')
  })
})

// --- Random plans ---

const CURRENCIES = ['JPY', 'EUR', 'USD', 'TND', 'KWD', 'CLF', 'UYW', 'XAF']
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)

/** Returns a random number from 0 to 1 on each call (mulberry32). The sequence depends on the seed. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A total in minor units, and payments that add up to it. */
interface Plan {
  readonly currency: string
  readonly decimals: number
  readonly payments: readonly bigint[]
}

function randomPlan(random: () => number, paymentsMax: number): Plan {
  const currency = CURRENCIES[Math.floor(random() * CURRENCIES.length)] ?? 'EUR'
  const decimals = minorUnits(currency)
  // Small and large amounts are equally likely.
  const digits = 1 + Math.floor(random() * (11 + decimals))
  const count = 1 + Math.floor(random() * paymentsMax)
  const payments = Array.from({ length: count }, () => 1n + BigInt(Math.floor(random() * 10 ** digits)))
  return { currency, decimals, payments }
}

/** Amounts with or without trailing zeros, as people write them. */
function write(units: bigint, decimals: number, random: () => number): string {
  const digits = String(units).padStart(decimals + 1, '0')
  if (decimals === 0) return digits
  const text = `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
  return random() < 0.5 ? text : text.replace(/\.?0+$/, '')
}

async function follow(
  platform: Platform,
  organizationId: string,
  { currency, decimals, payments }: Plan,
  random: () => number,
): Promise<void> {
  const total = payments.reduce((sum, payment) => sum + payment, 0n)
  const { invoices } = platform
  const draft = await invoices.create(organizationId, {
    currency,
    total: write(total, decimals, random),
    dueDate: '2099-01-01T00:00:00Z',
  })
  const ref = { invoiceId: draft.id }
  await invoices.issue(organizationId, ref)
  let paid = 0n
  for (const payment of payments) {
    paid += payment
    const amount = write(payment, decimals, random)
    const { invoice: after, payment: recorded } = await invoices.recordPayment(organizationId, {
      ...ref,
      amount,
    })
    const expected = [paid === total ? 'paid' : 'partially_paid', paid, total - paid]
    const shown = [after.status, unitsOf(after.amountPaid), unitsOf(after.amountDue)]
    assert.deepEqual(shown, expected)
    assert.equal(unitsOf(recorded.amount), payment)
  }
}

function unitsOf(decimal: string): bigint {
  return BigInt(decimal.replace('.', ''))
}

/** Runs a number of plans. A failure includes the seed so that it can be repeated. */
async function followMany(
  count: number,
  paymentsMax: number,
  host: Pick<Host, 'organizationId' | 'platform'>,
) {
  const random = createRandom(SEED)
  for (let index = 0; index < count; index++) {
    const plan = randomPlan(random, paymentsMax)
    try {
      await follow(host.platform, host.organizationId, plan, random)
    } catch (cause) {
      const said = `${plan.currency}: ${plan.payments.join(', ')}`
      throw new Error(`Plan ${index} of SEED=${SEED} does not settle: ${said}`, { cause })
    }
  }
}

/** Every invoice is settled once, and every payment causes an event. */
function assertSettledOnce(
  events: readonly { readonly type: string; readonly data: object }[],
  count: number,
): void {
  const settled = events.filter(({ type }) => type === 'invoice.paid')
  assert.equal(settled.length, count)
  assert.equal(new Set(settled.map(({ data }) => Reflect.get(data, 'invoiceId'))).size, count)
  for (const { type, data } of events) {
    if (type === 'payment.received') assert.notEqual(unitsOf(Reflect.get(data, 'amount')), 0n)
  }
}

test('a thousand random payment plans settle to exactly zero, with one invoice.paid each', async () => {
  const store = createMemoryStore()
  const platform = createPlatform(store)
  await followMany(1000, 8, { organizationId: 'org_plans', platform })
  const events = store.recordedEvents('org_plans').map(({ body }) => JSON.parse(body))
  assertSettledOnce(events, 1000)
})

describe('on PostgreSQL', () => {
  const opened = openPostgres()

  test('thirty random payment plans settle to exactly zero, with one invoice.paid each', async () => {
    const host = await opened.newHost()
    await followMany(30, 4, host)
    assertSettledOnce(await host.events(), 30)
  })
})
