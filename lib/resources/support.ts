import * as field from '../base/fields.ts'
import { eventType } from '../writes/event-envelope.ts'

// The host manages support tickets. This library only publishes the events.

// --- Events (section 6 of the spec) ---

const ticketId = field.prose(64, 'ID of the ticket.', 'tic_1042')

/** Support events by type. */
export const supportEvents = {
  'support.ticket_created': eventType(
    'A support ticket was opened',
    "Includes the ticket's subject and status.",
    {
      ticketId,
      subject: field.prose(500, 'Subject of the ticket.', 'Cannot download my invoice'),
      status: field.word('Status of the ticket.', 'open'),
    },
  ),
  'support.ticket_status_changed': eventType(
    'The status of a support ticket changed',
    'Includes the new and the previous status.',
    {
      ticketId,
      status: field.word('New status.', 'resolved'),
      previousStatus: field.word('Previous status.', 'open'),
    },
  ),
}
