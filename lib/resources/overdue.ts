import type * as v from 'valibot'
import { toEventRecord } from '../writes/event-envelope.ts'
import { placeholder, type Template } from '../writes/placeholders.ts'
import type { WriteContext } from '../writes/write-context.ts'
import type { Invoice, invoiceEvents, OverdueFacts, OverdueRequest } from './invoices.ts'

/** Builds the request to mark invoices overdue, with the template of each invoice's event. */
export function overdueRequest(
  which: Pick<OverdueRequest, 'organizationId' | 'asOf' | 'limit'>,
  { now, traceparent }: Pick<WriteContext, 'now' | 'traceparent'>,
): OverdueRequest {
  const data: Template<v.InferOutput<(typeof invoiceEvents)['invoice.overdue']>> = {
    invoiceId: placeholder<Invoice>('id'),
    number: placeholder<Invoice>('number'),
    currency: placeholder<Invoice>('currency'),
    amountDue: placeholder<Invoice>('amountDue'),
    dueDate: placeholder<Invoice>('dueDate'),
  }
  return {
    ...which,
    event: toEventRecord(placeholder<OverdueFacts>('eventId'), 'invoice.overdue', data, now, traceparent),
  }
}
