import { templateData, toEventRecord } from '../writes/event-envelope.ts'
import { placeholder } from '../writes/placeholders.ts'
import type { WriteContext } from '../writes/write-context.ts'
import { type Invoice, invoiceEvents, type OverdueFacts, type OverdueRequest } from './invoices.ts'

/** Builds a request to mark invoices as overdue, including the event template. */
export function overdueRequest(
  which: Pick<OverdueRequest, 'organizationId' | 'asOf' | 'limit'>,
  { now, traceparent }: Pick<WriteContext, 'now' | 'traceparent'>,
): OverdueRequest {
  const data = templateData(invoiceEvents['invoice.overdue'], { invoiceId: placeholder<Invoice>('id') })
  return {
    ...which,
    event: toEventRecord(placeholder<OverdueFacts>('eventId'), 'invoice.overdue', data, now, traceparent),
  }
}
