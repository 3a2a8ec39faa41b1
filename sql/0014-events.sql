-- The outbox: an event is written in the transaction of the change that the event reports, with one delivery for each endpoint
-- that wants the type (fan-out). The transaction sends no NOTIFY, which would serialize the commits of the whole database.
-- Locks: nothing in use; every object is new.

create table business_api.events (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  type text not null,
  created_at timestamptz not null,
  body text not null,
  -- The only endpoint of an event of a backfill; null for every other event, which goes to each endpoint that wants the type.
  only_endpoint_id text collate "C",
  -- The ids of the event's deliveries begin with this text (see delivery_digits): so the deliveries are a range of a primary key,
  -- and need no index by event.
  delivery_prefix text collate "C" not null,
  constraint events_pkey primary key (organization_id, id)
-- The purge deletes a few rows at a time, for ever: under the default settings a fifth of the table would be dead rows.
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- The purge walks along this index, part by part (0019-retention.sql). New events go to the end of the index, which adds 1 % to
-- the writes of publishing. A block range index has no order in which a walk could continue, and reads unsummarized ranges whole.
create index events_created_at_idx on business_api.events (created_at, organization_id, id);

-- The event log of an organization, by time: a host may give events ids of its own, so the ids have no order. A backfill finds
-- the events of a second along this index too. Adds an entry of about 80 bytes to the writes of publishing.
create index events_log_idx on business_api.events (organization_id, created_at, id);

-- The greatest size of an event's body in bytes: a single row for the whole database, which `migrate` changes. On a distributed
-- database this is a reference table. At least 64 KiB are required, so that every event of the API and the platform fits.
create table business_api.event_limits (
  organization_id text collate "C" not null default '',
  max_body_bytes integer not null,
  constraint event_limits_pkey primary key (organization_id),
  constraint event_limits_organization_id_check check (organization_id = ''),
  constraint event_limits_max_body_bytes_check check (max_body_bytes between 65536 and 4194304)
);
insert into business_api.event_limits (max_body_bytes) values (262144);

-- The types of the catalogue (lib/resources/event-catalogue.ts), so that publishing a misspelt type is an error.
create function business_api.event_types() returns text[]
language sql immutable
set search_path = ''
as $$
  select array[
    'client.created',
    'lead.created', 'lead.stage_changed',
    'proposal.created', 'proposal.sent', 'proposal.accepted', 'proposal.rejected',
    'invoice.issued', 'invoice.paid', 'invoice.overdue', 'payment.received',
    'project.completed',
    'support.ticket_created', 'support.ticket_status_changed',
    'business.created',
    'marketing.campaign_created', 'marketing.campaign_activated', 'marketing.campaign_paused',
    'marketing.campaign_completed', 'marketing.campaign_submitted', 'marketing.campaign_failed',
    'marketing.lead_captured', 'marketing.attribution_captured', 'marketing.provider_sync_completed'
  ]
$$;
