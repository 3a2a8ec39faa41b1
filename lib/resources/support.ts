import * as field from '../base/fields.ts'
import { eventType } from '../writes/event-envelope.ts'

// The host manages support tickets. This library only publishes the events.

// --- Events (section 6 of the spec) ---

const ticketId = field.prose(64, "The host's ticket.", 'tic_1042')

/** Support events by type. */
export const supportEvents = {
  'support.ticket_created': eventType(
    'A support ticket was opened',
    'Carries the subject and the status of the ticket.',
    {
      ticketId,
      subject: field.prose(500, 'The subject of the ticket.', 'Cannot download my invoice'),
      status: field.word('The status of the ticket.', 'open'),
    },
  ),
  'support.ticket_status_changed': eventType(
    'A support ticket changed its status',
    'Carries the new status and the previous status.',
    {
      ticketId,
      status: field.word('The new status.', 'resolved'),
      previousStatus: field.word('The previous status.', 'open'),
    },
  ),
}
