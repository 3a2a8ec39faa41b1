import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { eventType } from '../writes/event-envelope.ts'

// The host manages marketing campaigns. This library only publishes the events.

// --- Events (section 6 of the spec) ---

const campaignId = field.prose(64, "The host's campaign.", 'cmp_spring')
const source = field.prose(200, 'The origin of the visitor.', 'newsletter')
const provider = field.word('The advertising platform.', 'google_ads')

function campaign(status: string) {
  return {
    campaignId,
    name: field.prose(200, 'The name of the campaign.', 'Spring offer'),
    status: field.word('The new status of the campaign.', status),
  }
}

/** Marketing events by type. */
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
    'The campaign has stopped and may be activated again.',
    campaign('paused'),
  ),
  'marketing.campaign_completed': eventType(
    'A campaign was completed',
    'The campaign has ended.',
    campaign('completed'),
  ),
  'marketing.campaign_submitted': eventType(
    'A campaign was submitted to its provider',
    'The campaign was handed to the provider, which the event names.',
    { ...campaign('submitted'), provider },
  ),
  'marketing.campaign_failed': eventType('A campaign failed', '`reason` tells why.', {
    ...campaign('failed'),
    reason: field.prose(1000, 'The reason for the failure.', 'The provider refused the budget.'),
  }),
  'marketing.lead_captured': eventType(
    'Marketing captured a lead',
    '`businessId` and `leadId` are null as long as neither is known.',
    {
      captureId: field.prose(64, "The host's capture.", 'cap_881'),
      campaignId,
      source,
      businessId: v.nullable(field.id('biz', 'The business, if known.')),
      leadId: v.nullable(field.id('lead', 'The lead, if a lead was created.')),
    },
  ),
  'marketing.attribution_captured': eventType(
    'A visit or a lead was attributed to a campaign',
    '`leadId` is null when the visitor is not known.',
    {
      attributionId: field.prose(64, "The host's attribution.", 'att_17'),
      campaignId,
      leadId: v.nullable(field.id('lead', 'The lead of the attribution, if known.')),
      source,
      medium: field.prose(200, 'The medium of the visit.', 'email'),
      capturedAt: field.timestamp('The time of the capture.'),
    },
  ),
  'marketing.provider_sync_completed': eventType(
    'A sync with a provider was completed',
    'Carries the number of records, the start and the end of the synchronization.',
    {
      syncId: field.prose(64, "The host's run.", 'syn_204'),
      provider,
      startedAt: field.timestamp('The start of the synchronization.', '2026-03-14T09:26:11.204Z'),
      completedAt: field.timestamp('The end of the synchronization.'),
      records: field.count(0, 'The number of records read.', 318),
    },
  ),
}
