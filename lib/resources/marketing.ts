import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { eventType } from '../writes/event-envelope.ts'

// The host manages marketing campaigns. This library only publishes the events.

// --- Events (section 6 of the spec) ---

const campaignId = field.prose(64, 'ID of the campaign.', 'cmp_spring')
const source = field.prose(200, 'Source of the visit.', 'newsletter')
const provider = field.word('Advertising platform.', 'google_ads')

function campaign(status: string) {
  return {
    campaignId,
    name: field.prose(200, 'Name of the campaign.', 'Spring offer'),
    status: field.word('New status of the campaign.', status),
  }
}

/** Marketing events by type. */
export const marketingEvents = {
  'marketing.campaign_created': eventType(
    'A campaign was created',
    "The campaign isn't running yet.",
    campaign('draft'),
  ),
  'marketing.campaign_activated': eventType(
    'A campaign was activated',
    'The campaign is running.',
    campaign('active'),
  ),
  'marketing.campaign_paused': eventType(
    'A campaign was paused',
    'The campaign can be activated again.',
    campaign('paused'),
  ),
  'marketing.campaign_completed': eventType(
    'A campaign was completed',
    'The campaign has ended.',
    campaign('completed'),
  ),
  'marketing.campaign_submitted': eventType(
    'A campaign was submitted to its provider',
    '`provider` is the advertising platform.',
    { ...campaign('submitted'), provider },
  ),
  'marketing.campaign_failed': eventType('A campaign failed', '`reason` says why.', {
    ...campaign('failed'),
    reason: field.prose(1000, 'Reason for the failure.', 'The provider refused the budget.'),
  }),
  'marketing.lead_captured': eventType(
    'Marketing captured a lead',
    '`businessId` and `leadId` are null if unknown.',
    {
      captureId: field.prose(64, 'ID of the capture.', 'cap_881'),
      campaignId,
      source,
      businessId: v.nullable(field.id('biz', 'ID of the business, if known.')),
      leadId: v.nullable(field.id('lead', 'ID of the lead, if one was created.')),
    },
  ),
  'marketing.attribution_captured': eventType(
    'A visit or lead was attributed to a campaign',
    '`leadId` is null if the visitor is unknown.',
    {
      attributionId: field.prose(64, 'ID of the attribution.', 'att_17'),
      campaignId,
      leadId: v.nullable(field.id('lead', 'ID of the lead, if known.')),
      source,
      medium: field.prose(200, 'Medium of the visit.', 'email'),
      capturedAt: field.timestamp('Time of the capture.'),
    },
  ),
  'marketing.provider_sync_completed': eventType(
    'A sync with a provider was completed',
    'Includes the number of records and the start and end times.',
    {
      syncId: field.prose(64, 'ID of the sync.', 'syn_204'),
      provider,
      startedAt: field.timestamp('Time at which the sync started.', '2026-03-14T09:26:11.204Z'),
      completedAt: field.timestamp('Time at which the sync ended.'),
      records: field.count(0, 'Number of records read.', 318),
    },
  ),
}
