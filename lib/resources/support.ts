import * as field from '../base/fields.ts'
import { eventType } from '../writes/event-envelope.ts'

// Support tickets live in the host; only their events pass through this library.

// --- Events (specification, section 6) ---

const ticketId = field.prose(64, "The host's ticket.", 'tic_1042')

/** The events of support. */
export const supportEvents = {
  'support.ticket_created': eventType('A support ticket was opened', 'Tells its subject and its status.', {
    ticketId,
    subject: field.prose(500, 'What it is about.', 'Cannot download my invoice'),
    status: field.word('Where it stands.', 'open'),
  }),
  'support.ticket_status_changed': eventType(
    'A support ticket changed its status',
    'Tells the status it has now and the one it had.',
    {
      ticketId,
      status: field.word('Where it stands now.', 'resolved'),
      previousStatus: field.word('Where it stood.', 'open'),
    },
  ),
}
