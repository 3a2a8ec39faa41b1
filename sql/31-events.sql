-- The outbox. Events are written in the same transaction as the change they report, with one delivery for each endpoint
-- that wants the type (fan-out). That transaction avoids NOTIFY, which serializes all commits of the database.

-- Partitioned by day (34-days.sql). The key is delivery_prefix because the host can choose the ID, and only the prefix
-- is guaranteed to start with the publishing time. That time comes from the database's clock and determines retention
-- and the log's order. The publisher's clock only determines createdAt in the body.
create table business_api.events (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  type text not null,
  body text not null,
  -- A backfilled event's endpoint. Null for other events, which are sent to every endpoint that wants the type.
  only_endpoint_id text collate "C",
  -- The prefix of the event's delivery IDs (see delivery_digits), which are therefore a range of the primary key.
  delivery_prefix text collate "C" not null,
  -- The trace the event was written in, linked from its attempts. A W3C traceparent of 55 characters, or null. The
  -- tracestate (up to 512 bytes from other parties) isn't stored, because a link only needs the IDs and flags.
  traceparent text,
  -- ID of the record the event is about (see event_subjects), as it appears in the data. Up to 64 characters, or null.
  subject_id text collate "C",
  constraint events_pkey primary key (organization_id, id, delivery_prefix)
) partition by range (delivery_prefix);

-- Scanned by the purge in batches (50-retention.sql). New events are added at the end. A BRIN index won't do because it
-- isn't ordered, so a scan couldn't resume where it left off, and unsummarized ranges would be read completely.
create index events_delivery_prefix_idx on business_api.events (delivery_prefix);

-- For the event log, which is sorted by time, while IDs chosen by the host aren't in any order.
create index events_log_idx on business_api.events (organization_id, delivery_prefix);

-- For a record's events, in no particular order. Each entry takes 16 bytes. With organization, record and
-- delivery_prefix it would take 80, and inserts would touch seven times as many pages, whose full-page images go to the
-- WAL after a checkpoint. Deliveries are found by the event's delivery_prefix and don't need such an index.
create index events_subject_idx on business_api.events (hashtextextended(organization_id || ' ' || subject_id, 0))
  where subject_id is not null;

-- IDs of events that could be published twice, because the host chose the ID or the statement may be retried. Such an
-- event is only inserted along with its row here. The row is deleted with the event, or after its day has been dropped.
create table business_api.event_ids (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  delivery_prefix text collate "C" not null,
  constraint event_ids_pkey primary key (organization_id, id)
-- The purge deletes a few rows at a time, so with the default settings a fifth of the table would be dead rows.
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- For a day's IDs, across organizations.
create index event_ids_delivery_prefix_idx on business_api.event_ids (delivery_prefix);

-- Maximum size of an event body in bytes, a single row for the whole database that `migrate` can change. At least 64
-- KiB, so the API's and the platform's own events always fit.
create table business_api.event_limits (
  organization_id text collate "C" not null default '',
  max_body_bytes integer not null,
  constraint event_limits_pkey primary key (organization_id),
  constraint event_limits_organization_id_check check (organization_id = ''),
  constraint event_limits_max_body_bytes_check check (max_body_bytes between 65536 and 4194304)
);
insert into business_api.event_limits (max_body_bytes) values (262144);

-- Returns the built-in event types (see lib/resources/), each with the field of its data that has the record's ID.
create function business_api.event_subjects() returns jsonb
language sql immutable
as $$
  select '{
    "client.created": "clientId",
    "lead.created": "leadId", "lead.stage_changed": "leadId",
    "proposal.created": "proposalId", "proposal.sent": "proposalId",
    "proposal.accepted": "proposalId", "proposal.rejected": "proposalId",
    "invoice.issued": "invoiceId", "invoice.paid": "invoiceId", "invoice.overdue": "invoiceId", "payment.received": "invoiceId",
    "project.completed": "projectId",
    "support.ticket_created": "ticketId", "support.ticket_status_changed": "ticketId",
    "business.created": "businessId",
    "marketing.campaign_created": "campaignId", "marketing.campaign_activated": "campaignId",
    "marketing.campaign_paused": "campaignId", "marketing.campaign_completed": "campaignId",
    "marketing.campaign_submitted": "campaignId", "marketing.campaign_failed": "campaignId",
    "marketing.lead_captured": "captureId", "marketing.attribution_captured": "attributionId",
    "marketing.provider_sync_completed": "syncId"
  }'::jsonb
$$;

-- The host's custom event types for publishers in SQL, in addition to event_subjects(), for the whole database.
-- Registered by `migrate` along with the field of the data that has the record's ID, or null. Names are never deleted,
-- because another version of the host may still publish that type.
create table business_api.event_types (
  organization_id text collate "C" not null default '',
  type text collate "C" not null,
  subject text,
  constraint event_types_pkey primary key (organization_id, type),
  constraint event_types_organization_id_check check (organization_id = ''),
  constraint event_types_type_check check (type ~ '^[a-z][a-z0-9_]*[.][a-z][a-z0-9_]*$' and char_length(type) <= 64)
);
