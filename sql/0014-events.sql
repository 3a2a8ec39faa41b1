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

-- Makes an id in the form of the application: `<kind>_<ulid>`, with 48 bits of milliseconds and 79 random bits. Each of the
-- sixteen bytes of a random UUID gives five bits; the byte with the version gives fewer.
create function business_api.new_id(kind text) returns text
language sql volatile
set search_path = ''
as $$
  select kind || '_' || string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', digit + 1, 1), '' order by position)
    from (
      select i as position, ((floor(extract(epoch from clock_timestamp()) * 1000)::bigint >> (45 - 5 * i)) & 31)::int as digit
        from generate_series(0, 9) as i
      union all
      select 10 + i, get_byte(random.bytes, i) & 31
        from (select uuid_send(gen_random_uuid()) as bytes) as random, generate_series(0, 15) as i
    ) as digits
$$;

-- Makes the digits with which the ids of all deliveries of a call begin, in the form of the application: `dlv_`, 48 bits of
-- milliseconds, ten bits of microseconds, twenty random bits. Ten further digits of an id are the number of the event in the call and
-- the number of the endpoint, hexadecimal, which are ULID digits too: a call of new_id for each delivery took longer than everything
-- else. So the ids have the order in which the events were inserted.
create function business_api.delivery_digits(at_time timestamptz) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  microseconds bigint := floor(extract(epoch from at_time) * 1000000)::bigint;
  time_bits bigint := ((microseconds / 1000) << 10) | (microseconds % 1000);
  random_bytes bytea := uuid_send(gen_random_uuid());
begin
  return (
    select 'dlv_' || string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', digit + 1, 1), '' order by place)
      from (
        select place, ((time_bits >> (55 - 5 * place)) & 31)::int as digit from generate_series(0, 11) as place
        union all
        select 12 + place, get_byte(random_bytes, place) & 31 from generate_series(0, 3) as place
      ) as digits
  );
end
$$;
