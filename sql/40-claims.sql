-- Claims. A delivery loop leases deliveries and releases them. A claim only opens the days of the claimed deliveries,
-- because an event is looked up by its ID and its delivery's day. If the planner believes that a table is empty, it
-- joins a list of keys in the wrong order and compares every row of the table with the list. So claims and results look
-- up entries one by one (a lateral join with a limit) and update rows by ctid, with all other scans disabled. The
-- call's snapshot guarantees that a ctid isn't reused before the call ends.

-- Picks and locks up to `budget` deliveries of an endpoint for the caller to claim. Backfills are returned in `later`.
-- Deliveries are left alone if the endpoint is paused or the organization has moved to another shard, and skipped if
-- the endpoint is disabled or removed. If the endpoint has a rate (44-endpoint-rates.sql), only as many are picked as
-- the rate allows, and `turn_at` is when the next one may be sent. The rate is spent even if the caller doesn't claim
-- them.
create function business_api.pick_deliveries(
  organization text, endpoint text, budget integer, token text, at_time timestamptz, out ids text[], out events text[],
  out places tid[], out later jsonb, out turn_at timestamptz
)
language plpgsql volatile
set search_path = ''
as $$
declare
  known record;
  picked text[];
begin
  ids := '{}';
  select e.state, e.max_per_second, e.max_per_second is not null or r.endpoint_id is not null as has_rate,
         (select p.is_here from business_api.shard_places p
           where p.organization_id = organization order by p.version desc limit 1) as is_here
    into known
    from business_api.webhook_endpoints e
    left join business_api.endpoint_rates r on r.organization_id = e.organization_id and r.endpoint_id = e.id
   where e.organization_id = organization and e.id = endpoint;
  if known.state = 'paused' or known.is_here is false then
    return;
  elsif known.state is distinct from 'enabled' then
    perform business_api.skip_pending(organization, endpoint);
    return;
  end if;
  if known.has_rate and budget > 0 then
    select r.allowance, r.turn_at into budget, turn_at
      from business_api.rate_allowance(organization, endpoint, known.max_per_second, budget, at_time) as r;
  end if;
  if budget > 0 then
    select coalesce(array_agg(f.id) filter (where f.priority < 2), '{}'), array_agg(f.event_id) filter (where f.priority < 2),
           array_agg(f.place) filter (where f.priority < 2),
           jsonb_agg(jsonb_build_object(
             'organizationId', organization, 'endpointId', endpoint, 'id', f.id, 'eventId', f.event_id, 'place', f.place::text
           )) filter (where f.priority = 2),
           array_agg(f.id)
      into ids, events, places, later, picked
      from (
        select d.id, d.event_id, d.ctid as place, d.priority from business_api.open_deliveries d
         where d.claim_token is null and not d.is_backing_off and d.organization_id = organization and d.endpoint_id = endpoint
         order by d.priority, d.id limit budget for update skip locked
      ) as f;
    if known.has_rate and picked is not null then
      turn_at := business_api.spend_rate(organization, endpoint, known.max_per_second, picked, token, at_time);
    end if;
  end if;
end
$$;

-- Scans the endpoints that have due deliveries (a loose index scan), starting at a given place, and picks deliveries up
-- to the claim's remaining capacity. Each step is an index lookup, so a scan costs the same with a thousand pending
-- deliveries as with a million. Backfills get the leftover capacity, and only as many are locked as fit. Returns the
-- last endpoint (or the last one that was served if there are backfills left), whether all endpoints were scanned, and
-- the earliest turn of an endpoint with a rate.
create function business_api.scan_due_deliveries(
  pick_limit integer,
  endpoint_limit integer,
  after_organization text,
  after_endpoint text,
  endpoint_budget integer,
  organization_budget integer,
  endpoint_budgets jsonb,
  organization_budgets jsonb,
  claimed_organizations text[],
  claimed_endpoints text[],
  token text,
  at_time timestamptz,
  out organizations text[],
  out ids text[],
  out endpoints text[],
  out events text[],
  out places tid[],
  out turn_at timestamptz,
  out here_organization text,
  out here_endpoint text,
  out is_complete boolean
)
language plpgsql volatile
set search_path = ''
as $$
declare
  next_organization text;
  next_endpoint text;
  -- The priority of the endpoint's first delivery, which is 2 if there are only backfills.
  next_priority smallint;
  budget integer;
  picked record;
  later jsonb := '[]';
  backfill record;
  last_organization text;
  last_endpoint text;
  is_backfill_left boolean := false;
  endpoints_read integer := 0;
  has_wrapped boolean := after_organization is null;
begin
  organizations := '{}';
  ids := '{}';
  endpoints := '{}';
  events := '{}';
  places := '{}';
  here_organization := coalesce(after_organization, '');
  here_endpoint := coalesce(after_endpoint, '');
  is_complete := false;
  while cardinality(ids) < pick_limit and endpoints_read < endpoint_limit loop
    select d.organization_id, d.endpoint_id, d.priority into next_organization, next_endpoint, next_priority
      from business_api.open_deliveries d
     where d.claim_token is null and not d.is_backing_off
       and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
     order by d.organization_id, d.endpoint_id, d.priority
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
    endpoints_read := endpoints_read + 1;

    budget := least(
      pick_limit - cardinality(ids),
      coalesce((endpoint_budgets ->> here_endpoint)::integer, endpoint_budget)
        - coalesce(cardinality(array_positions(claimed_endpoints, here_endpoint)), 0),
      coalesce((organization_budgets ->> here_organization)::integer, organization_budget)
        - coalesce(cardinality(array_positions(claimed_organizations, here_organization)), 0)
        - coalesce(cardinality(array_positions(organizations, here_organization)), 0)
    );
    if next_priority = 2 then
      is_backfill_left := is_backfill_left or budget > 0 and cardinality(ids) + jsonb_array_length(later) >= pick_limit;
      budget := least(budget, pick_limit - cardinality(ids) - jsonb_array_length(later));
    end if;
    select * into picked from business_api.pick_deliveries(here_organization, here_endpoint, budget, token, at_time);
    turn_at := least(turn_at, picked.turn_at);
    if cardinality(picked.ids) > 0 then
      ids := ids || picked.ids;
      events := events || picked.events;
      places := places || picked.places;
      organizations := organizations || array_fill(here_organization, array[cardinality(picked.ids)]);
      endpoints := endpoints || array_fill(here_endpoint, array[cardinality(picked.ids)]);
    end if;
    later := later || coalesce(picked.later, '[]');
  end loop;

  for backfill in
    select b."organizationId" as organization_id, b."endpointId" as endpoint_id, b.id, b."eventId" as event_id, b.place
      from rows from (jsonb_to_recordset(later) as (
        "organizationId" text, "endpointId" text, id text, "eventId" text, place tid
      )) with ordinality as b ("organizationId", "endpointId", id, "eventId", place, number)
     order by b.number
  loop
    if cardinality(ids) >= pick_limit then
      is_backfill_left := true;
      exit;
    end if;
    continue when coalesce((organization_budgets ->> backfill.organization_id)::integer, organization_budget)
      - coalesce(cardinality(array_positions(claimed_organizations, backfill.organization_id)), 0)
      - coalesce(cardinality(array_positions(organizations, backfill.organization_id)), 0) <= 0;
    ids := ids || backfill.id;
    events := events || backfill.event_id;
    places := places || backfill.place;
    organizations := organizations || backfill.organization_id;
    endpoints := endpoints || backfill.endpoint_id;
    last_organization := backfill.organization_id;
    last_endpoint := backfill.endpoint_id;
  end loop;
  -- The next claim continues after the backfills that were served.
  if is_complete and is_backfill_left and last_organization is not null then
    is_complete := false;
    here_organization := last_organization;
    here_endpoint := last_endpoint;
  end if;
end
$$;

-- Returns which of a claim's bodies must be read separately because they're larger than byte_limit, and the position of
-- the first one that doesn't fit into byte_budget and is left for the next claim. The size of a missing event is null.
create function business_api.fit_bodies(
  sizes bigint[], byte_limit integer, byte_budget integer, out unread_places bigint[], out cut integer
)
language sql immutable
set search_path = ''
as $$
  select coalesce(array_agg(s.place) filter (where s.bytes > byte_limit), '{}'),
         min(s.place) filter (where s.bytes <= byte_limit and s.bytes_so_far > byte_budget)
    from (
      select size.place, size.bytes,
             sum(size.bytes) filter (where size.bytes <= byte_limit) over (order by size.place) as bytes_so_far
        from unnest(sizes) with ordinality as size (bytes, place)
    ) as s
$$;

-- Claims deliveries. See ClaimStore.claim in lib/webhooks/claims.ts. Endpoints are scanned round-robin. PostgreSQL
-- knows a body's size without reading it. There's no wait for the disk, because a claim that is lost in a crash can be
-- repeated.
create function business_api.claim_deliveries(
  token text,
  is_repeat boolean,
  claim_limit integer,
  byte_budget integer,
  endpoint_limit integer,
  after_organization text,
  after_endpoint text,
  lease_ms double precision,
  max_attempts integer,
  endpoint_budget integer,
  organization_budget integer,
  endpoint_budgets jsonb,
  organization_budgets jsonb
) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  at_time timestamptz;
  -- The claimed deliveries. A repeated claim's earlier deliveries come first and have no ctid.
  organizations text[] := '{}';
  ids text[] := '{}';
  endpoints text[] := '{}';
  events text[] := '{}';
  places tid[];
  repeated integer := 0;
  claimed integer := 0;
  picked record;
  -- Position of the first delivery whose body doesn't fit into byte_budget, left for the next claim.
  cut integer;
  unread_places bigint[] := '{}';
  unread json := '[]';
  -- The range of the claimed deliveries, so statements only open their days.
  first_prefix text;
  last_id text;
  here_organization text;
  here_endpoint text;
  is_complete boolean;
  failed json := '[]';
begin
  perform set_config('synchronous_commit', 'off', true);
  at_time := clock_timestamp();
  if exists (select 1 from business_api.open_deliveries d where d.lease_until <= at_time) then
    failed := business_api.reclaim_expired_leases(max_attempts);
    at_time := clock_timestamp();
  end if;
  if exists (
    select 1 from business_api.open_deliveries d where d.is_backing_off and d.due_at <= at_time
  ) then
    perform business_api.promote_due_retries(at_time);
  end if;

  if is_repeat then
    select coalesce(array_agg(d.organization_id order by d.id), '{}'), coalesce(array_agg(d.id order by d.id), '{}'),
           coalesce(array_agg(d.endpoint_id order by d.id), '{}'), coalesce(array_agg(d.event_id order by d.id), '{}')
      into organizations, ids, endpoints, events
      from business_api.open_deliveries d
     where d.lease_until > at_time and d.claim_token = $1;
    repeated := cardinality(ids);
  end if;

  select * into picked from business_api.scan_due_deliveries(
    claim_limit - repeated, endpoint_limit, after_organization, after_endpoint,
    endpoint_budget, organization_budget, endpoint_budgets, organization_budgets, organizations, endpoints, token, at_time
  );
  organizations := organizations || picked.organizations;
  ids := ids || picked.ids;
  endpoints := endpoints || picked.endpoints;
  events := events || picked.events;
  places := picked.places;
  claimed := cardinality(ids);
  here_organization := picked.here_organization;
  here_endpoint := picked.here_endpoint;
  is_complete := picked.is_complete;

  select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
    from unnest(ids) as claim (id);
  if claimed > 0 and byte_budget <= 0 then
    -- Don't even read the sizes, because an unreadable row must not block a claim.
    unread_places := array(select generate_series(1, claimed));
  elsif claimed > 0 and (
    -- Nearly all claims fit, and this sum is half as expensive as finding the deliveries that don't.
    select sum(octet_length(event.body))
      from unnest(organizations, events, ids) as claim (organization_id, event_id, id)
      -- A delivery and its event are in the same day, given by the first 14 characters of the ID. Events are looked up
      -- by key, because a join with all events of the period would read the entire backlog.
      cross join lateral (
        select e.body from business_api.events e
         where e.organization_id = claim.organization_id and e.id = claim.event_id
           and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
           and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
         order by e.delivery_prefix limit 1
      ) as event
  ) > byte_budget then
    select fit.unread_places, fit.cut into unread_places, cut
      from business_api.fit_bodies(
        array(
          select event.bytes
            from unnest(organizations, events, ids) with ordinality as claim (organization_id, event_id, id, place)
            left join lateral (
              select octet_length(e.body) as bytes from business_api.events e
               where e.organization_id = claim.organization_id and e.id = claim.event_id
                 and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
                 and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
               order by e.delivery_prefix limit 1
            ) as event on true
           order by claim.place
        ), byte_budget, byte_budget
      ) as fit;
    if cut is not null then
      -- A repeated claim's deliveries that don't fit into the result become due again.
      perform business_api.release_deliveries((
        select jsonb_agg(jsonb_build_object('organizationId', rest.organization_id, 'deliveryId', rest.id, 'token', $1))
          from unnest(organizations[cut:repeated], ids[cut:repeated]) as rest (organization_id, id)
      ));
      places := places[:cut - 1 - repeated];
      repeated := least(repeated, cut - 1);
      organizations := organizations[:cut - 1];
      ids := ids[:cut - 1];
      endpoints := endpoints[:cut - 1];
      is_complete := false;
      here_organization := organizations[cut - 1];
      here_endpoint := endpoints[cut - 1];
    end if;
  end if;

  if cardinality(places) > 0 then
    perform business_api.hold_deliveries(places, token, at_time, at_time + lease_ms * interval '1 millisecond');
  end if;
  if cardinality(unread_places) > 0 then
    select coalesce(json_agg(json_build_object(
             'organizationId', claim.organization_id, 'id', claim.id, 'endpointId', claim.endpoint_id
           ) order by claim.place) filter (where claim.place = any (unread_places)), '[]'),
           array_agg(claim.organization_id order by claim.place) filter (where claim.place <> all (unread_places)),
           array_agg(claim.id order by claim.place) filter (where claim.place <> all (unread_places))
      into unread, organizations, ids
      from unnest(organizations, ids, endpoints) with ordinality as claim (organization_id, id, endpoint_id, place);
  end if;

  return json_build_object(
    'deliveries', case when cardinality(ids) > 0 then business_api.read_deliveries(organizations, ids) else '[]' end,
    'unread', unread,
    'failed', failed,
    'storeTime', extract(epoch from clock_timestamp()) * 1000,
    'next', case when not is_complete
      then json_build_object('organizationId', here_organization, 'endpointId', here_endpoint)
    end,
    'nextInMs', case when picked.turn_at is not null
      then greatest(0, extract(epoch from picked.turn_at - clock_timestamp()) * 1000)
    end
  )::text;
end
$$;
select business_api.forbid_plans('claim_deliveries', 'enable_sort');

-- Claims the deliveries that the caller has found and locked at these ctids.
create function business_api.hold_deliveries(
  places tid[], token text, claimed_at timestamptz, lease_until timestamptz
) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_tidscan = on
as $$
begin
  update business_api.open_deliveries d
     set attempts = d.attempts + 1, claim_token = $2, claimed_at = $3, lease_until = $4
   where d.ctid = any ($1);
end
$$;
select business_api.forbid_plans('hold_deliveries', 'enable_indexscan');

-- Releases claims. The deliveries are due again as before, and the attempts aren't counted.
create function business_api.release_deliveries(claims jsonb) returns bigint
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  claim record;
  released bigint := 0;
begin
  for claim in
    select * from jsonb_to_recordset(claims) as c ("organizationId" text, "deliveryId" text, token text)
  loop
    update business_api.open_deliveries d
       set attempts = d.attempts - 1, claim_token = null, claimed_at = null, lease_until = null
     where d.organization_id = claim."organizationId" and d.id = claim."deliveryId" and d.claim_token = claim.token;
    released := released + found::integer;
  end loop;
  return released;
end
$$;
select business_api.forbid_plans('release_deliveries');
