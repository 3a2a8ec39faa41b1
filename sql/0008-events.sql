-- The outbox: endpoints, events, and one delivery for each event and matching endpoint, written in the transaction that
-- the event is about. No NOTIFY here: in a writing transaction it serializes the commits of the whole database.

create table business_api.webhook_endpoints (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  url text not null,
  types text[],
  state text not null,
  created_at timestamptz not null,
  constraint webhook_endpoints_pkey primary key (organization_id, id),
  constraint webhook_endpoints_state_check check (state in ('enabled', 'paused', 'disabled'))
);

create table business_api.events (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  type text not null,
  created_at timestamptz not null,
  body text not null,
  constraint events_pkey primary key (organization_id, id)
);

create table business_api.deliveries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  event_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  state text not null,
  due_at timestamptz not null,
  constraint deliveries_pkey primary key (organization_id, id),
  constraint deliveries_organization_id_event_id_endpoint_id_key unique (organization_id, event_id, endpoint_id),
  constraint deliveries_organization_id_event_id_fkey
    foreign key (organization_id, event_id) references business_api.events (organization_id, id),
  constraint deliveries_organization_id_endpoint_id_fkey
    foreign key (organization_id, endpoint_id) references business_api.webhook_endpoints (organization_id, id)
);

-- An id as the application makes them: `<kind>_<ulid>`, 48 bits of milliseconds and 79 random bits (a random UUID's
-- sixteen bytes give five bits each, but for the one that holds its version).
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

-- Records events with one delivery for each endpoint of the organization that wants their type: pending, or skipped
-- where the endpoint is disabled, so that it can be replayed. An event id that exists stands, and nothing is sent
-- again. Returns how many deliveries were written.
create function business_api.record_events(organization_id text, events jsonb) returns bigint
language plpgsql volatile
set search_path = ''
as $$
declare
  written bigint;
begin
  with recorded as (
    insert into business_api.events (organization_id, id, type, created_at, body)
    select $1, e.id, e.type, e."createdAt", e.body
      from jsonb_to_recordset($2) as e (id text, type text, "createdAt" timestamptz, body text)
    on conflict do nothing
    returning id, type
  ), fanned_out as (
    insert into business_api.deliveries (organization_id, id, event_id, endpoint_id, state, due_at)
    select $1, business_api.new_id('dlv'), recorded.id, endpoint.id,
           case endpoint.state when 'disabled' then 'skipped' else 'pending' end, now()
      from recorded
      join business_api.webhook_endpoints endpoint
        on endpoint.organization_id = $1 and (endpoint.types is null or recorded.type = any (endpoint.types))
    returning 1
  )
  select count(*) into written from fanned_out;
  return written;
end
$$;

-- The types of the catalogue (lib/events.ts), so that a misspelt one is an error to its publisher.
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

-- Publishes an event from any language, inside the host's own transaction: rolled back, it never happened. Returns the
-- event's id. An id given twice publishes once: the first stands. The shape of `data` for each type is in the API's
-- OpenAPI document, under `webhooks`.
create function business_api.publish_event(organization_id text, type text, data jsonb, id text default null)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  event_id text := coalesce(id, business_api.new_id('evt'));
  created_at text := to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
begin
  if organization_id is null or organization_id = '' then
    raise exception 'Cannot publish an event without an organization' using errcode = 'invalid_parameter_value';
  end if;
  if type is null or type <> all (business_api.event_types()) then
    raise exception 'Cannot publish an event as % is not a type of event', coalesce(type, 'null') using errcode = 'invalid_parameter_value';
  end if;
  if data is null or jsonb_typeof(data) <> 'object' then
    raise exception 'Cannot publish % as its data is not a JSON object', type using errcode = 'invalid_parameter_value';
  end if;
  perform business_api.record_events(organization_id, jsonb_build_array(jsonb_build_object(
    'id', event_id,
    'type', type,
    'createdAt', created_at,
    'body', format(
      '{"id":%s,"type":%s,"createdAt":%s,"data":%s}',
      to_json(event_id), to_json(type), to_json(created_at), data
    )
  )));
  return event_id;
end
$$;
