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

-- Inserts events with one delivery for each endpoint of the organization that wants the type: open, or skipped at once for a
-- disabled endpoint, so that the delivery can be recovered later. An existing event id keeps the first event, and nothing is sent
-- again. Returns the number of open deliveries. The ids of all deliveries share one timestamp, which is also the created_at,
-- because the log finds a period by the ids.
create function business_api.insert_events(organization_id text, events jsonb) returns bigint
language plpgsql volatile
set search_path = ''
as $$
declare
  written bigint;
  at_time timestamptz := clock_timestamp();
  digits text := business_api.delivery_digits(at_time);
  largest record;
  max_bytes integer;
begin
  if exists (select 1 from jsonb_array_elements($2) as e where strpos(e ->> 'body', E'"\\u0000') > 0) then
    raise exception 'Cannot insert an event because a placeholder is left in its body';
  end if;
  select e.type, octet_length(e.body) as bytes into largest
    from jsonb_to_recordset($2) as e (type text, body text)
   order by octet_length(e.body) desc limit 1;
  if largest.bytes > 65536 then
    -- The default applies if row level security hides the row.
    max_bytes := coalesce((select l.max_body_bytes from business_api.event_limits l where l.organization_id = ''), 262144);
    if largest.bytes > max_bytes then
      raise exception 'Cannot publish % because its body has % bytes, and an event may have %', largest.type, largest.bytes, max_bytes
        using errcode = 'invalid_parameter_value', constraint = 'event_limits_max_body_bytes',
              hint = 'Publish an id with which subscribers can fetch the rest.';
    end if;
  end if;
  with inserted as (
    insert into business_api.events (organization_id, id, type, created_at, body, traceparent, delivery_prefix)
    select $1, e.id, e.type, e."createdAt", e.body, e.traceparent,
           digits || upper(lpad(to_hex(row_number() over ()), 5, '0'))
      from jsonb_to_recordset($2) as e (id text, type text, "createdAt" timestamptz, body text, traceparent text)
    on conflict do nothing
    returning id, type, delivery_prefix
  ), endpoint as materialized (
    select e.id, e.state, e.types, upper(lpad(to_hex(row_number() over ()), 5, '0')) as number
      from business_api.webhook_endpoints e
     where e.organization_id = $1 and e.state <> 'removed'
  ), fanned_out as materialized (
    select inserted.delivery_prefix || endpoint.number as id, inserted.id as event_id, inserted.type,
           endpoint.id as endpoint_id, endpoint.state
      from inserted
      join endpoint on endpoint.types is null or inserted.type = any (endpoint.types)
  ), opened as (
    insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at, created_at)
    select $1, f.id, f.event_id, f.type, f.endpoint_id, at_time, at_time from fanned_out f where f.state <> 'disabled'
    returning 1
  ), skipped as (
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at)
    select $1, f.id, f.event_id, f.type, f.endpoint_id, 'skipped', 'endpoint_disabled', at_time, at_time
      from fanned_out f where f.state = 'disabled'
  )
  select count(*) into written from opened;
  return written;
end
$$;
