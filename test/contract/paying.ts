import type { BusinessApiStore } from '../../lib/business-store.ts'
import type {
  Invoice,
  InvoiceRecord,
  PaidInvoice,
  PaymentRefusal,
  Settlement,
} from '../../lib/resources/invoices.ts'
import type { ChangeOutcome } from '../../lib/writes/change.ts'
import { invoiceItem, type Prepared } from './changing.ts'
import { kinds } from './kinds.ts'
import { ids, type Tenant } from './tenant.ts'

// Helpers for the tests of payments and reversals.

/** The time at which payments are received. */
export const MOMENT = '2026-03-14T09:26:53.589Z'

/** The outcome of a payment or reversal. */
export type PaymentOutcome = ChangeOutcome<PaidInvoice, PaymentRefusal>

/** The parts of a settlement that a test can set, and the store to use. */
export interface SettleChoices extends Partial<Prepared> {
  readonly through?: BusinessApiStore | undefined
}

/** Creates an issued invoice for 1250 TND without payments and returns its id. */
export async function createInvoice(tenant: Tenant, changes: Partial<InvoiceRecord> = {}): Promise<string> {
  const item = { ...invoiceItem('issued'), amountPaid: '0', ...changes }
  await kinds.invoices.create(tenant, { item })
  return item.id
}

/** Sends a settlement. By default, it's allowed in any state and has no events or key. */
export function settle(
  { id: organizationId, store }: Tenant,
  recordId: string,
  set: Settlement,
  { through = store, ...changes }: SettleChoices = {},
): Promise<PaymentOutcome> {
  const change = { organizationId, id: ids('chg'), recordId, from: null, events: [], idempotency: null, set }
  return through.invoices.pay({ ...change, ...changes })
}

/** Returns the status, amount paid and amount due of an invoice. */
export function moneyOf({ status, amountPaid, amountDue }: Invoice): readonly string[] {
  return [status, amountPaid, amountDue]
}

/** Returns the status, amount paid and amount due after a settlement. */
export function money(outcome: PaymentOutcome): readonly string[] | PaymentOutcome {
  return outcome.outcome === 'changed' ? moneyOf(outcome.representation.invoice) : outcome
}
