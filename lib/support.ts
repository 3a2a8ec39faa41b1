import * as v from 'valibot'
import * as field from './fields.ts'

// Support tickets live in the host; only their events pass through this library.

// --- Events (specification, section 6) ---

const ticketId = field.prose(64, "The host's ticket.", 'tic_1042')

/** The events of support. */
export const supportEvents = {
  'support.ticket_created': v.object({
    ticketId,
    subject: field.prose(500, 'What it is about.', 'Cannot download my invoice'),
    status: field.word('Where it stands.', 'open'),
  }),
  'support.ticket_status_changed': v.object({
    ticketId,
    status: field.word('Where it stands now.', 'resolved'),
    previousStatus: field.word('Where it stood.', 'open'),
  }),
}
