import type { EventType } from '../../events.ts'

/** What happened, and what a subscriber should know of it. */
export interface EventText {
  readonly summary: string
  readonly description: string
}

/** The words for each event type (specification, section 6); one that is missing does not compile. */
export const eventTexts: Readonly<Record<EventType, EventText>> = {
  'client.created': {
    summary: 'A client was created',
    description:
      'The push alternative to polling the list of clients: `client` is enough to upsert by its id.',
  },
  'lead.created': {
    summary: 'A lead was created',
    description: '`businessId` tells which business the lead is of.',
  },
  'lead.stage_changed': {
    summary: 'A lead moved to another stage',
    description: 'Tells the stage it is in now and the one it was in.',
  },
  'proposal.created': {
    summary: 'A proposal was created',
    description: 'A new proposal, or a new version of one.',
  },
  'proposal.sent': {
    summary: 'A proposal was sent to the client',
    description: 'The client can now accept or reject this version.',
  },
  'proposal.accepted': {
    summary: 'A client signed a proposal',
    description: 'Sent when a client signs the proposal: the moment to start a delivery workflow.',
  },
  'proposal.rejected': {
    summary: 'A client rejected a proposal',
    description: 'This version is final; a revision is a new version.',
  },
  'invoice.issued': {
    summary: 'An invoice was issued',
    description: 'From now on the invoice is to be paid.',
  },
  'invoice.paid': {
    summary: 'An invoice was fully settled',
    description: 'Sent only when nothing is left to be paid, whatever the number of payments.',
  },
  'invoice.overdue': {
    summary: 'An invoice is overdue',
    description: 'Its due date has passed and `amountDue` is still to be paid.',
  },
  'payment.received': {
    summary: 'A payment was received',
    description: 'One payment for an invoice, and how the invoice stands after it.',
  },
  'project.completed': {
    summary: 'A project was completed',
    description: 'Sent when the project is completed.',
  },
  'support.ticket_created': {
    summary: 'A support ticket was opened',
    description: 'Tells its subject and its status.',
  },
  'support.ticket_status_changed': {
    summary: 'A support ticket changed its status',
    description: 'Tells the status it has now and the one it had.',
  },
  'business.created': {
    summary: 'A business was created',
    description: 'Sent before `client.created` when a client is created: a client brings its business.',
  },
  'marketing.campaign_created': {
    summary: 'A campaign was created',
    description: 'The campaign exists and is not running yet.',
  },
  'marketing.campaign_activated': {
    summary: 'A campaign was activated',
    description: 'The campaign is running.',
  },
  'marketing.campaign_paused': {
    summary: 'A campaign was paused',
    description: 'The campaign has stopped for now.',
  },
  'marketing.campaign_completed': {
    summary: 'A campaign was completed',
    description: 'The campaign has come to its end.',
  },
  'marketing.campaign_submitted': {
    summary: 'A campaign was submitted to its provider',
    description: 'Tells which provider has it.',
  },
  'marketing.campaign_failed': {
    summary: 'A campaign failed',
    description: '`reason` tells why.',
  },
  'marketing.lead_captured': {
    summary: 'Marketing captured a lead',
    description: '`businessId` and `leadId` are null as long as neither is known.',
  },
  'marketing.attribution_captured': {
    summary: 'A visit or a lead was attributed to a campaign',
    description: '`leadId` is null when the visitor is not known.',
  },
  'marketing.provider_sync_completed': {
    summary: 'A sync with a provider was completed',
    description: 'Tells how many records were read and in which time.',
  },
}
