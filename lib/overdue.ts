import type * as v from 'valibot'
import type { WithBlanks } from './blanks.ts'
import { blank } from './blanks.ts'
import { record } from './envelope.ts'
import type { invoiceEvents, OverdueRequest } from './invoices.ts'
import type { Making } from './making.ts'

/** A request to mark invoices overdue, with the event that each of them gets. */
export function overdueRequest(
  which: Pick<OverdueRequest, 'organizationId' | 'asOf' | 'limit'>,
  { now }: Pick<Making, 'now'>,
): OverdueRequest {
  const data: WithBlanks<v.InferOutput<(typeof invoiceEvents)['invoice.overdue']>> = {
    invoiceId: blank('id'),
    number: blank('number'),
    currency: blank('currency'),
    amountDue: blank('amountDue'),
    dueDate: blank('dueDate'),
  }
  return { ...which, event: record(blank('eventId'), 'invoice.overdue', data, now) }
}
