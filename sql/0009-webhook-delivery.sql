-- Delivering what 0008 records: signing secrets and the health of endpoints; claims, retries and the attempt log of
-- deliveries. A delivery is claimed for as long as its lease lasts, and every later write is fenced by the claim's token.

alter table business_api.webhook_endpoints
  add column description text not null default '',
  add column headers jsonb not null default '{}',
  -- Sealed by the application (AES-256-GCM); null once the endpoint is removed.
  add column sealed_secret text,
  add column previous_sealed_secret text,
  add column previous_secret_expires_at timestamptz,
  add column disabled_reason text,
  add column failures integer not null default 0,
  add column failing_since timestamptz,
  drop constraint webhook_endpoints_state_check,
  add constraint webhook_endpoints_state_check check (state in ('enabled', 'paused', 'disabled', 'removed')),
  set (fillfactor = 50);

alter table business_api.deliveries
  add column created_at timestamptz not null default now(),
  -- Of all rounds, counted when claimed; those before the present round.
  add column attempts integer not null default 0,
  add column attempts_before integer not null default 0,
  add column is_retry boolean not null generated always as (attempts > attempts_before) stored,
  -- A retry that is not due yet: it is left out of what claims walk along until its time has come.
  add column is_waiting boolean not null default false,
  add column claim_token text,
  add column claimed_at timestamptz,
  add column lease_until timestamptz,
  add column reason text,
  add column finished_at timestamptz,
  add constraint deliveries_state_check
    check (state in ('pending', 'in_flight', 'delivered', 'dead_lettered', 'skipped', 'cancelled')),
  -- It made every publisher lock the endpoint's one row. Endpoints are removed by a mark, and their rows only when no
  -- delivery is left.
  drop constraint deliveries_organization_id_endpoint_id_fkey,
  -- The event is unique, and its deliveries are made with it: see deliveries_event_id_idx below.
  drop constraint deliveries_organization_id_event_id_endpoint_id_key,
  -- Every delivery leaves two dead rows behind: the claims step over them until they are vacuumed.
  set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- No foreign key to deliveries: it would lock and so write the delivery's row once more for each attempt.
create table business_api.delivery_attempts (
  organization_id text collate "C" not null,
  delivery_id text collate "C" not null,
  number integer not null,
  started_at timestamptz not null,
  duration_ms real not null,
  dns_ms real,
  connect_ms real,
  tls_ms real,
  first_byte_ms real,
  status integer,
  error text,
  body_excerpt text not null,
  constraint delivery_attempts_pkey primary key (organization_id, delivery_id, number)
);

-- What a claim walks along: endpoint by endpoint, first attempts before retries, then what has been due for longer.
create index deliveries_pending_idx
  on business_api.deliveries (organization_id, endpoint_id, is_retry, due_at)
  where state = 'pending' and not is_waiting;
create index deliveries_waiting_idx on business_api.deliveries (due_at) where state = 'pending' and is_waiting;
create index deliveries_lease_until_idx on business_api.deliveries (lease_until) where state = 'in_flight';
-- What can be recovered, and the deliveries of an event. There is no index of all deliveries by endpoint: with another one
-- that has organization_id or id in it, a plan that a session made while the table was small may look for a delivery
-- there, past thousands of others. Partial ones are safe, as the writes below say nothing of the state.
create index deliveries_recoverable_idx
  on business_api.deliveries (organization_id, endpoint_id, id)
  where state in ('dead_lettered', 'skipped');
create index deliveries_event_id_idx on business_api.deliveries (event_id);
-- What is old. A block range is enough, as events are written in the order of their time, and costs next to nothing.
create index events_created_at_idx on business_api.events using brin (created_at);
create index idempotency_keys_expires_at_idx on business_api.idempotency_keys (expires_at);

-- As in 0008, but for endpoints that are removed, and for the ids: their time is made once for all, and their 62 random
-- bits are hexadecimal digits, which are ULID digits too. new_id took longer than all the rest.
create or replace function business_api.record_events(organization_id text, events jsonb) returns bigint
language plpgsql volatile
set search_path = ''
as $$
declare
  written bigint;
  id_prefix text;
begin
  select 'dlv_' || string_agg(
           substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((milliseconds >> (45 - 5 * place)) & 31)::int + 1, 1),
           '' order by place
         )
    into id_prefix
    from (select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as milliseconds) as clock,
         generate_series(0, 9) as place;

  with recorded as (
    insert into business_api.events (organization_id, id, type, created_at, body)
    select $1, e.id, e.type, e."createdAt", e.body
      from jsonb_to_recordset($2) as e (id text, type text, "createdAt" timestamptz, body text)
    on conflict do nothing
    returning id, type
  ), fanned_out as (
    insert into business_api.deliveries
      (organization_id, id, event_id, endpoint_id, state, due_at, created_at, reason, finished_at)
    select $1,
           id_prefix || upper(substr(replace(gen_random_uuid()::text, '-', ''), 17)),
           recorded.id, endpoint.id,
           case endpoint.state when 'disabled' then 'skipped' else 'pending' end, now(), now(),
           case endpoint.state when 'disabled' then 'endpoint_disabled' end,
           case endpoint.state when 'disabled' then now() end
      from recorded
      join business_api.webhook_endpoints endpoint
        on endpoint.organization_id = $1
       and endpoint.state <> 'removed'
       and (endpoint.types is null or recorded.type = any (endpoint.types))
    returning state
  )
  select count(*) filter (where state = 'pending') into written from fanned_out;
  return written;
end
$$;

-- The functions below are called all the time and on tables that are empty one day and have millions of rows the next,
-- while a session keeps its plans: each turns off what would only be right for a small table. (What is turned off counts
-- as dear, so that without plan_cache_mode every call would be planned anew: that took six times as long as the call.)
-- For the same reason the writes name their rows by primary key and claim token alone: a condition on the state would
-- invite a partial index to be read from end to end. A token is there for as long as the claim is in force.

-- Sets free what a process had claimed that has ended: the attempt counts, as it may have reached the subscriber.
create function business_api.end_leases(max_attempts integer) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  at_time timestamptz := clock_timestamp();
begin
  with ended as (
    select d.organization_id, d.id, d.claimed_at, d.lease_until, d.attempts - d.attempts_before >= $1 as was_last
      from business_api.deliveries d
     where d.state = 'in_flight' and d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  ), freed as (
    update business_api.deliveries d
       set state = case when ended.was_last then 'dead_lettered' else 'pending' end,
           reason = case when ended.was_last then 'interrupted' end,
           finished_at = case when ended.was_last then at_time end,
           due_at = at_time,
           claim_token = null, lease_until = null
      from ended
     where d.organization_id = ended.organization_id and d.id = ended.id
    returning d.organization_id, d.id, d.attempts, ended.claimed_at, ended.lease_until
  )
  insert into business_api.delivery_attempts
    (organization_id, delivery_id, number, started_at, duration_ms, error, body_excerpt)
  select f.organization_id, f.id, f.attempts, f.claimed_at, extract(epoch from f.lease_until - f.claimed_at) * 1000,
         'interrupted', ''
    from freed f
  on conflict do nothing;
end
$$;

-- Retries whose time has come join those that claims walk along.
create function business_api.end_waits(at_time timestamptz) returns void
language sql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
  with due as (
    select d.organization_id, d.id from business_api.deliveries d
     where d.state = 'pending' and d.is_waiting and d.due_at <= $1
     order by d.due_at
     limit 500
       for update skip locked
  )
  update business_api.deliveries d set is_waiting = false
    from due
   where d.organization_id = due.organization_id and d.id = due.id
$$;

-- Claims deliveries: see DeliveryStore.claim in lib/deliveries.ts. The pending deliveries are walked from endpoint to
-- endpoint, each step one descent of the index however many are waiting, so that a claim costs the same with a thousand
-- of them and with a million. Durable is only what was sent: a claim lost in a crash is made again.
create function business_api.claim_deliveries(
  token text,
  is_repeat boolean,
  claim_limit integer,
  visits integer,
  after_organization text,
  after_endpoint text,
  lease_ms double precision,
  max_attempts integer,
  endpoint_room integer,
  organization_room integer,
  endpoint_rooms jsonb,
  organization_rooms jsonb
) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  at_time timestamptz;
  -- What is claimed, those of a repeated claim first.
  organizations text[] := '{}';
  ids text[] := '{}';
  repeated integer := 0;
  repeated_endpoints text[] := '{}';
  claimed integer := 0;
  found_ids text[];
  here_organization text := coalesce(after_organization, '');
  here_endpoint text := coalesce(after_endpoint, '');
  next_organization text;
  next_endpoint text;
  endpoint_state text;
  room integer;
  visited integer := 0;
  has_wrapped boolean := after_organization is null;
  is_complete boolean := false;
  answer text;
begin
  perform set_config('synchronous_commit', 'off', true);
  at_time := clock_timestamp();
  if exists (select from business_api.deliveries d where d.state = 'in_flight' and d.lease_until <= at_time) then
    perform business_api.end_leases(max_attempts);
    at_time := clock_timestamp();
  end if;
  if exists (
    select from business_api.deliveries d where d.state = 'pending' and d.is_waiting and d.due_at <= at_time
  ) then
    perform business_api.end_waits(at_time);
  end if;

  if is_repeat then
    select coalesce(array_agg(d.organization_id order by d.id), '{}'), coalesce(array_agg(d.id order by d.id), '{}'),
           coalesce(array_agg(d.endpoint_id), '{}')
      into organizations, ids, repeated_endpoints
      from business_api.deliveries d
     where d.state = 'in_flight' and d.lease_until > at_time and d.claim_token = $1;
    repeated := cardinality(ids);
    claimed := repeated;
  end if;

  while claimed < claim_limit and visited < visits loop
    select d.organization_id, d.endpoint_id into next_organization, next_endpoint
      from business_api.deliveries d
     where d.state = 'pending' and not d.is_waiting
       and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
     order by d.organization_id, d.endpoint_id
     limit 1;
    if not found then
      is_complete := has_wrapped;
      exit when has_wrapped;
      has_wrapped := true;
      here_organization := '';
      here_endpoint := '';
      continue;
    end if;
    if has_wrapped and after_organization is not null
       and (next_organization, next_endpoint) > (after_organization, after_endpoint) then
      is_complete := true;
      exit;
    end if;
    here_organization := next_organization;
    here_endpoint := next_endpoint;
    visited := visited + 1;

    select e.state into endpoint_state from business_api.webhook_endpoints e
     where e.organization_id = here_organization and e.id = here_endpoint;
    if endpoint_state = 'paused' then
      continue;
    elsif endpoint_state is distinct from 'enabled' then
      perform business_api.skip_pending(here_organization, here_endpoint);
      continue;
    end if;

    room := least(
      claim_limit - claimed,
      coalesce((endpoint_rooms ->> here_endpoint)::integer, endpoint_room)
        - coalesce(cardinality(array_positions(repeated_endpoints, here_endpoint)), 0),
      coalesce((organization_rooms ->> here_organization)::integer, organization_room)
        - coalesce(cardinality(array_positions(organizations, here_organization)), 0)
    );
    -- Two statements: in one, the retries that are not due yet would all be read.
    if room > 0 then
      found_ids := array(
        select d.id from business_api.deliveries d
         where d.state = 'pending' and not d.is_waiting
           and d.organization_id = here_organization and d.endpoint_id = here_endpoint
           and not d.is_retry and d.due_at <= at_time
         order by d.due_at limit room for update skip locked
      );
      room := room - cardinality(found_ids);
      if room > 0 then
        found_ids := found_ids || array(
          select d.id from business_api.deliveries d
           where d.state = 'pending' and not d.is_waiting
             and d.organization_id = here_organization and d.endpoint_id = here_endpoint
             and d.is_retry and d.due_at <= at_time
           order by d.due_at limit room for update skip locked
        );
      end if;
      ids := ids || found_ids;
      organizations := organizations || array_fill(here_organization, array[cardinality(found_ids)]);
      claimed := cardinality(ids);
    end if;
  end loop;

  update business_api.deliveries d
     set state = 'in_flight', attempts = d.attempts + 1, claim_token = $1, claimed_at = at_time,
         lease_until = at_time + lease_ms * interval '1 millisecond'
    from unnest(organizations[repeated + 1:], ids[repeated + 1:]) as claim (organization_id, id)
   where d.organization_id = claim.organization_id and d.id = claim.id;

  select json_build_object(
    'deliveries', coalesce(json_agg(
      json_build_object(
        'organizationId', d.organization_id, 'id', d.id, 'endpointId', d.endpoint_id, 'eventId', d.event_id,
        'type', event.type, 'body', event.body, 'url', endpoint.url, 'headers', endpoint.headers,
        'sealedSecrets', case
          when endpoint.previous_secret_expires_at > at_time
          then json_build_array(endpoint.sealed_secret, endpoint.previous_sealed_secret)
          else json_build_array(endpoint.sealed_secret)
        end,
        'attempt', d.attempts - d.attempts_before
      )
      order by claim.place
    ), '[]'),
    'storeTime', extract(epoch from clock_timestamp()) * 1000,
    'next', case when not is_complete
      then json_build_object('organizationId', here_organization, 'endpointId', here_endpoint)
    end
  )::text
    into answer
    from unnest(organizations, ids) with ordinality as claim (organization_id, id, place)
    join business_api.deliveries d on d.organization_id = claim.organization_id and d.id = claim.id
    join business_api.events event on event.organization_id = d.organization_id and event.id = d.event_id
    join business_api.webhook_endpoints endpoint
      -- One that has been removed has no secret to sign with any more.
      on endpoint.organization_id = d.organization_id and endpoint.id = d.endpoint_id and endpoint.state <> 'removed';
  return answer;
end
$$;

-- A part of what waits for an endpoint that is disabled or removed; the next claims meet the rest.
create function business_api.skip_pending(organization_id text, endpoint_id text) returns void
language sql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
  update business_api.deliveries d
     set state = 'skipped', reason = 'endpoint_disabled', finished_at = clock_timestamp()
   where d.organization_id = $1
     and d.id in (
       select waiting.id from business_api.deliveries waiting
        where waiting.organization_id = $1 and waiting.endpoint_id = $2
          and waiting.state = 'pending' and not waiting.is_waiting
        limit 500
          for update skip locked
     )
$$;

-- Records what became of attempts: see DeliveryStore.record in lib/deliveries.ts. Returns, as JSON, the endpoints of
-- which an attempt failed.
create function business_api.record_attempts(results jsonb, failure_limit integer, failing_ms double precision)
returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  at_time timestamptz := clock_timestamp();
  outcomes jsonb;
  answer text;
begin
  -- A record lost in a crash is an attempt made once more.
  perform set_config('synchronous_commit', 'off', true);

  with result as (
    select * from jsonb_to_recordset(results) as r (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "isGone" boolean,
      "delayMs" double precision, "startedAgoMs" double precision, "endedAgoMs" double precision,
      "durationMs" real, "dnsMs" real, "connectMs" real, "tlsMs" real, "firstByteMs" real,
      status integer, error text, "bodyExcerpt" text
    )
  ), ended as (
    update business_api.deliveries d
       set state = case r.outcome when 'retry' then 'pending' else r.outcome end,
           due_at = case r.outcome
             when 'retry' then at_time + (r."delayMs" - r."endedAgoMs") * interval '1 millisecond'
             else d.due_at
           end,
           finished_at = case when r.outcome <> 'retry' then at_time - r."endedAgoMs" * interval '1 millisecond' end,
           is_waiting = r.outcome = 'retry' and r."delayMs" > 0,
           reason = r.reason,
           claim_token = null, lease_until = null
      from result r
     where d.organization_id = r."organizationId" and d.id = r."deliveryId" and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, r.*
  ), logged as (
    insert into business_api.delivery_attempts (
      organization_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, first_byte_ms,
      status, error, body_excerpt
    )
    select e."organizationId", e."deliveryId", e.attempts,
           at_time - e."startedAgoMs" * interval '1 millisecond',
           e."durationMs", e."dnsMs", e."connectMs", e."tlsMs", e."firstByteMs", e.status, e.error, e."bodyExcerpt"
      from ended e
    on conflict do nothing
  ), last_success as (
    select e."organizationId", e.endpoint_id, min(e."endedAgoMs") as ago_ms
      from ended e where e.outcome = 'delivered' group by 1, 2
  )
  -- What of it counts for the endpoints: the failures since the last success among these results.
  select jsonb_agg(o) into outcomes
    from (
      select e."organizationId" as organization_id, e.endpoint_id,
             bool_or(e.outcome = 'delivered') as has_success,
             bool_or(e.is_failure) as has_failure,
             bool_or(e."isGone") as is_gone,
             count(*) filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity')) as failures,
             max(e."endedAgoMs") filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity'))
               as first_failure_ago_ms
        from (
          -- An attempt that this side has interrupted says nothing of the endpoint.
          select x.*, x.outcome <> 'delivered' and x.error is distinct from 'interrupted' as is_failure from ended x
        ) as e
        left join last_success s on s."organizationId" = e."organizationId" and s.endpoint_id = e.endpoint_id
       group by 1, 2
    ) as o;

  if outcomes is null then
    return '[]';
  end if;

  with outcome as (
    -- Only what changes something, and never waiting for a row that somebody else holds: it would hold up the records of
    -- all other organizations, and a count may be short by some.
    select o.*, e.failures as failures_before, e.failing_since as failing_before, e.state as state_before
      from jsonb_to_recordset(outcomes) as o (
        organization_id text, endpoint_id text, has_success boolean, has_failure boolean, is_gone boolean,
        failures integer, first_failure_ago_ms double precision
      )
      join business_api.webhook_endpoints e on e.organization_id = o.organization_id and e.id = o.endpoint_id
     where (o.has_failure or e.failures > 0) and e.state <> 'removed'
       for no key update of e skip locked
  ), counted as (
    select o.*,
           case when o.has_success then o.failures else o.failures_before + o.failures end as failures_now,
           case
             when o.has_success or o.failing_before is null
             then at_time - o.first_failure_ago_ms * interval '1 millisecond'
             else o.failing_before
           end as failing_now
      from outcome o
  ), judged as (
    select c.*,
           c.state_before in ('enabled', 'paused') and (
             c.is_gone
             or c.failures_now >= failure_limit and c.failing_now <= at_time - failing_ms * interval '1 millisecond'
           ) as is_disabled_now
      from counted c
  ), changed as (
    update business_api.webhook_endpoints e
       set failures = j.failures_now, failing_since = j.failing_now,
           state = case when j.is_disabled_now then 'disabled' else e.state end,
           disabled_reason = case
             when j.is_disabled_now then case when j.is_gone then 'gone' else 'failing' end
             else e.disabled_reason
           end
      from judged j
     where e.organization_id = j.organization_id and e.id = j.endpoint_id
    returning e.organization_id, e.id, e.state, e.failures, e.failing_since, j.has_failure, j.is_disabled_now
  )
  select coalesce(json_agg(json_build_object(
           'organizationId', c.organization_id, 'endpointId', c.id, 'state', c.state, 'failures', c.failures,
           'failingSince', to_char(c.failing_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
           'isNewlyDisabled', c.is_disabled_now
         )) filter (where c.has_failure), '[]')::text
    into answer
    from changed c;
  return answer;
end
$$;

-- Gives claims back: due as before, and the attempt is not counted.
create function business_api.release_deliveries(claims jsonb) returns bigint
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  released bigint;
begin
  update business_api.deliveries d
     set state = 'pending', attempts = d.attempts - 1, claim_token = null, lease_until = null
    from jsonb_to_recordset($1) as claim ("organizationId" text, "deliveryId" text, token text)
   where d.organization_id = claim."organizationId" and d.id = claim."deliveryId" and d.claim_token = claim.token;
  get diagnostics released = row_count;
  return released;
end
$$;

-- As in 0008, but for the id, which becomes the value of a header.
create or replace function business_api.publish_event(
  organization_id text, type text, data jsonb, id text default null
) returns text
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
    raise exception 'Cannot publish an event as % is not a type of event', coalesce(type, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  if data is null or jsonb_typeof(data) <> 'object' then
    raise exception 'Cannot publish % as its data is not a JSON object', type using errcode = 'invalid_parameter_value';
  end if;
  if event_id !~ '^[!-~]{1,64}$' then
    raise exception 'Cannot publish % as its id is not 1 to 64 visible ASCII characters', type
      using errcode = 'invalid_parameter_value';
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
