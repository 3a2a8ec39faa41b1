import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { eventType } from '../writes/event-envelope.ts'

// Marketing campaigns live in the host; only their events pass through this library.

// --- Events (specification, section 6) ---

const campaignId = field.prose(64, "The host's campaign.", 'cmp_spring')
const source = field.prose(200, 'Where the visitor came from.', 'newsletter')
const provider = field.word('The advertising platform.', 'google_ads')

function campaign(status: string) {
  return {
    campaignId,
    name: field.prose(200, 'Its name.', 'Spring offer'),
    status: field.word('Where it stands now.', status),
  }
}

/** The events of marketing. */
export const marketingEvents = {
  'marketing.campaign_created': eventType(
    'A campaign was created',
    'The campaign exists and is not running yet.',
    campaign('draft'),
  ),
  'marketing.campaign_activated': eventType(
    'A campaign was activated',
    'The campaign is running.',
    campaign('active'),
  ),
  'marketing.campaign_paused': eventType(
    'A campaign was paused',
    'The campaign has stopped for now.',
    campaign('paused'),
  ),
  'marketing.campaign_completed': eventType(
    'A campaign was completed',
    'The campaign has come to its end.',
    campaign('completed'),
  ),
  'marketing.campaign_submitted': eventType(
    'A campaign was submitted to its provider',
    'Tells which provider has it.',
    { ...campaign('submitted'), provider },
  ),
  'marketing.campaign_failed': eventType('A campaign failed', '`reason` tells why.', {
    ...campaign('failed'),
    reason: field.prose(1000, 'Why it failed.', 'The provider refused the budget.'),
  }),
  'marketing.lead_captured': eventType(
    'Marketing captured a lead',
    '`businessId` and `leadId` are null as long as neither is known.',
    {
      captureId: field.prose(64, "The host's capture.", 'cap_881'),
      campaignId,
      source,
      businessId: v.nullable(field.id('biz', 'The business, when one is known.')),
      leadId: v.nullable(field.id('lead', 'The lead, when one was made.')),
    },
  ),
  'marketing.attribution_captured': eventType(
    'A visit or a lead was attributed to a campaign',
    '`leadId` is null when the visitor is not known.',
    {
      attributionId: field.prose(64, "The host's attribution.", 'att_17'),
      campaignId,
      leadId: v.nullable(field.id('lead', 'The lead it is attributed to, when known.')),
      source,
      medium: field.prose(200, 'By which medium.', 'email'),
      capturedAt: field.timestamp('When it was captured.'),
    },
  ),
  'marketing.provider_sync_completed': eventType(
    'A sync with a provider was completed',
    'Tells how many records were read and in which time.',
    {
      syncId: field.prose(64, "The host's run.", 'syn_204'),
      provider,
      startedAt: field.timestamp('When it started.'),
      completedAt: field.timestamp('When it ended.'),
      records: field.count(0, 'How many records were read.', 318),
    },
  ),
}
