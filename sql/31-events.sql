-- The outbox: an event is written in the transaction of the change that the event reports, with one delivery for each endpoint
-- that wants the type (fan-out). The transaction sends no NOTIFY, which would serialize the commits of the whole database.

-- Partitioned by day (34-days.sql): by the delivery_prefix, because the host may choose the id, and only the prefix begins with the
-- publishing time. The prefix is the moment of publishing by the database's clock, which decides about retention and the order of the
-- log. The publisher's clock decides only the createdAt in the body.
create table business_api.events (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  type text not null,
  body text not null,
  -- The endpoint of a backfilled event; null for every other event: each endpoint that wants the type receives that.
  only_endpoint_id text collate "C",
  -- The ids of the event's deliveries begin with this text (see delivery_digits): so the deliveries are a range of a primary key,
  -- and need no index by event.
  delivery_prefix text collate "C" not null,
  -- The trace in which the event was written, for the attempts: a W3C traceparent, 55 characters; null without a trace. The
  -- tracestate (up to 512 bytes of other parties) is not stored: a link from an attempt's span needs only the ids and flags.
  traceparent text,
  -- The id of the record that the event is about (event_subjects), as in the data; null for an event without a record. Up to 64
  -- characters.
  subject_id text collate "C",
  constraint events_pkey primary key (organization_id, id, delivery_prefix)
) partition by range (delivery_prefix);

-- The purge scans this index, part by part (50-retention.sql). New events go to the end of the index. A block range index has no
-- order in which a scan could continue, and reads unsummarized ranges whole.
create index events_delivery_prefix_idx on business_api.events (delivery_prefix);

-- The event log of an organization, by time: the host may choose ids, so the ids have no order.
create index events_log_idx on business_api.events (organization_id, delivery_prefix);

-- The events of a record, in no order: an entry has 16 bytes, where one with organization, record and delivery_prefix has 80 and takes seven
-- times the pages, whose images a checkpoint adds to the write-ahead log. The deliveries of an event are found by its delivery_prefix, so
-- they need no such index.
create index events_subject_idx on business_api.events (hashtextextended(organization_id || ' ' || subject_id, 0))
  where subject_id is not null;

-- The ids of events that may be published twice: ids that the host chose, and ids of a statement that may be sent again. An event
-- with such an id is inserted together with this row, or not at all. The row is deleted with the event, or after the event's day.
create table business_api.event_ids (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  delivery_prefix text collate "C" not null,
  constraint event_ids_pkey primary key (organization_id, id)
-- The purge deletes a few rows at a time, forever: under the default settings a fifth of the table would be dead rows.
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- A day's ids, of all organizations.
create index event_ids_delivery_prefix_idx on business_api.event_ids (delivery_prefix);

-- The maximum size of an event's body in bytes: a single row for the whole database, which `migrate` changes. At least 64 KiB, so
-- every event of the API and the platform fits.
create table business_api.event_limits (
  organization_id text collate "C" not null default '',
  max_body_bytes integer not null,
  constraint event_limits_pkey primary key (organization_id),
  constraint event_limits_organization_id_check check (organization_id = ''),
  constraint event_limits_max_body_bytes_check check (max_body_bytes between 65536 and 4194304)
);
insert into business_api.event_limits (max_body_bytes) values (262144);

-- The types of the catalogue (lib/resources/), so publishing a misspelt type is an error, each with the field of its data that has
-- the id of the record.
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

-- The host's own types beside event_subjects(), for publishers in SQL: the names that `migrate` has registered, with the field of the
-- data that has the record's id; null without such a field. Rows of the whole database. A name stays even if a version of the host
-- lacks the type, because another version may publish events of that type.
create table business_api.event_types (
  organization_id text collate "C" not null default '',
  type text collate "C" not null,
  subject text,
  constraint event_types_pkey primary key (organization_id, type),
  constraint event_types_organization_id_check check (organization_id = ''),
  constraint event_types_type_check check (type ~ '^[a-z][a-z0-9_]*[.][a-z][a-z0-9_]*$' and char_length(type) <= 64)
);
