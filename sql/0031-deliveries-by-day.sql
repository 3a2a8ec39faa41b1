-- Claims and results of attempts, which open the days of their deliveries and no other: an event is found by its id and by the day of
-- the delivery. 0016-due-deliveries.sql says why each function limits the planner. One more limit is here: in a table that seemed to
-- be empty the planner joins a list of keys the wrong way round, and compares each row of the table with the list. So lists are looked
-- up one by one (lateral, with a limit), and the rows are changed where they were found: by ctid, all other scans off. The snapshot of
-- the call keeps a place from being used again before the call ends.
-- Locks: none.

-- Takes the deliveries of an endpoint for a claim: up to `budget` are locked, which the claim changes. A paused endpoint keeps its
-- deliveries; those of a disabled or removed endpoint are skipped. Backfills are left if the organization has another delivery to be
-- sent, unless every endpoint was inspected (`is_rest`).
create function business_api.pick_deliveries(
  organization_id text,
  endpoint_id text,
  is_backfill boolean,
  is_rest boolean,
  budget integer,
  out ids text[],
  out events text[],
  out places tid[]
)
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  endpoint_state text;
begin
  ids := '{}';
  select e.state into endpoint_state from business_api.webhook_endpoints e where e.organization_id = $1 and e.id = $2;
  if endpoint_state = 'paused' then
    return;
  elsif endpoint_state is distinct from 'enabled' then
    perform business_api.skip_pending($1, $2);
    return;
  end if;
  if $5 <= 0 then
    return;
  elsif not $3 then
    select coalesce(array_agg(f.id), '{}'), array_agg(f.event_id), array_agg(f.place) into ids, events, places
      from (
        select d.id, d.event_id, d.ctid as place from business_api.open_deliveries d
         where d.claim_token is null and not d.is_backing_off and not d.is_backfill
           and d.organization_id = $1 and d.endpoint_id = $2
         order by d.is_retry, d.id limit $5 for update skip locked
      ) as f;
  elsif $4 or not exists (
    select 1 from business_api.webhook_endpoints e
     where e.organization_id = $1 and e.state = 'enabled' and exists (
       select 1 from business_api.open_deliveries d
        where d.claim_token is null and not d.is_backing_off and not d.is_backfill
          and d.organization_id = $1 and d.endpoint_id = e.id
     )
  ) then
    select coalesce(array_agg(f.id), '{}'), array_agg(f.event_id), array_agg(f.place) into ids, events, places
      from (
        select d.id, d.event_id, d.ctid as place from business_api.open_deliveries d
         where d.claim_token is null and not d.is_backing_off and d.is_backfill
           and d.organization_id = $1 and d.endpoint_id = $2
         order by d.is_retry, d.id limit $5 for update skip locked
      ) as f;
  end if;
end
$$;

drop function if exists business_api.pick_backfills(
  timestamptz, boolean, integer, integer, text, text, integer, integer, jsonb, jsonb, text[], text[]
);

-- Walks over the endpoints with due deliveries, or with due backfills, from a place on, and takes deliveries within the capacity that
-- the claim has left. Each step is one descent of an index, so that a walk costs the same with a thousand pending deliveries and with
-- a million. Returns the place of the last endpoint, and whether every endpoint was inspected.
create function business_api.walk_due_deliveries(
  is_backfill boolean,
  is_rest boolean,
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
  out organizations text[],
  out ids text[],
  out endpoints text[],
  out events text[],
  out places tid[],
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
  found_deliveries record;
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
    -- Each kind has an index of its own.
    if is_backfill then
      select d.organization_id, d.endpoint_id into next_organization, next_endpoint
        from business_api.open_deliveries d
       where d.claim_token is null and not d.is_backing_off and d.is_backfill
         and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
       order by d.organization_id, d.endpoint_id
       limit 1;
    else
      select d.organization_id, d.endpoint_id into next_organization, next_endpoint
        from business_api.open_deliveries d
       where d.claim_token is null and not d.is_backing_off and not d.is_backfill
         and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
       order by d.organization_id, d.endpoint_id
       limit 1;
    end if;
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

    select * into found_deliveries from business_api.pick_deliveries(here_organization, here_endpoint, is_backfill, is_rest, least(
      pick_limit - cardinality(ids),
      coalesce((endpoint_budgets ->> here_endpoint)::integer, endpoint_budget)
        - coalesce(cardinality(array_positions(claimed_endpoints, here_endpoint)), 0),
      coalesce((organization_budgets ->> here_organization)::integer, organization_budget)
        - coalesce(cardinality(array_positions(claimed_organizations, here_organization)), 0)
        - coalesce(cardinality(array_positions(organizations, here_organization)), 0)
    ));
    if cardinality(found_deliveries.ids) > 0 then
      ids := ids || found_deliveries.ids;
      events := events || found_deliveries.events;
      places := places || found_deliveries.places;
      organizations := organizations || array_fill(here_organization, array[cardinality(found_deliveries.ids)]);
      endpoints := endpoints || array_fill(here_endpoint, array[cardinality(found_deliveries.ids)]);
    end if;
  end loop;
end
$$;

-- Returns which of the bodies of a claim are left to be read on their own, each larger than byte_limit, and the place of the first
-- that no longer fits into byte_budget, and which is left for the next claim. A null size is that of a delivery without an event.
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

-- Claims deliveries: see DeliveryStore.claim in lib/webhooks/deliveries.ts. A claim walks over the pending deliveries from
-- endpoint to endpoint (round robin), and over those of backfills last. PostgreSQL knows the sizes of bodies without reading the
-- bodies. Claims do not wait for the disk: a claim that a crash undoes is made again.
create or replace function business_api.claim_deliveries(
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
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  at_time timestamptz;
  -- The claimed deliveries; the deliveries of a repeated claim come first, and have no place.
  organizations text[] := '{}';
  ids text[] := '{}';
  endpoints text[] := '{}';
  events text[] := '{}';
  places tid[];
  repeated integer := 0;
  claimed integer := 0;
  picked record;
  backfill record;
  -- Place of the first delivery whose body no longer fits into byte_budget, and which is left for the next claim.
  cut integer;
  unread_places bigint[] := '{}';
  unread json := '[]';
  -- The range of the claimed deliveries, so that a statement opens only the days of their events.
  first_prefix text;
  last_id text;
  here_organization text;
  here_endpoint text;
  is_complete boolean;
  dead_letters json := '[]';
begin
  perform set_config('synchronous_commit', 'off', true);
  at_time := clock_timestamp();
  if exists (select 1 from business_api.open_deliveries d where d.lease_until <= at_time) then
    dead_letters := business_api.reclaim_expired_leases(max_attempts);
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

  select * into picked from business_api.walk_due_deliveries(
    false, true, claim_limit - repeated, endpoint_limit, after_organization, after_endpoint,
    endpoint_budget, organization_budget, endpoint_budgets, organization_budgets, organizations, endpoints
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

  if claimed < claim_limit and exists (
    select 1 from business_api.open_deliveries d where d.claim_token is null and not d.is_backing_off and d.is_backfill
  ) then
    select * into backfill from business_api.walk_due_deliveries(
      true, is_complete, claim_limit - claimed, endpoint_limit, after_organization, after_endpoint,
      endpoint_budget, organization_budget, endpoint_budgets, organization_budgets, organizations, endpoints
    );
    organizations := organizations || backfill.organizations;
    ids := ids || backfill.ids;
    endpoints := endpoints || backfill.endpoints;
    events := events || backfill.events;
    places := places || backfill.places;
    claimed := cardinality(ids);
    if is_complete and not backfill.is_complete then
      is_complete := false;
      here_organization := backfill.here_organization;
      here_endpoint := backfill.here_endpoint;
    end if;
  end if;

  select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
    from unnest(ids) as claim (id);
  if claimed > 0 and byte_budget <= 0 then
    -- Neither bodies nor sizes of bodies are read, because an unreadable row must not hold up a claim.
    unread_places := array(select generate_series(1, claimed));
  elsif claimed > 0 and (
    -- Almost every claim fits, and this sum costs half as much as the places of the deliveries that do not fit.
    select sum(octet_length(event.body))
      from unnest(organizations, events, ids) as claim (organization_id, event_id, id)
      -- A delivery and its event are in the same day, which the first 14 characters of the id decide. Each event is found by its
      -- key: a join of all events of the period would read the backlog.
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
      -- Deliveries of a repeated claim that do not fit into the answer become due again.
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
    'deadLetters', dead_letters,
    'storeTime', extract(epoch from clock_timestamp()) * 1000,
    'next', case when not is_complete
      then json_build_object('organizationId', here_organization, 'endpointId', here_endpoint)
    end
  )::text;
end
$$;

-- Holds deliveries for a claim, which has found and locked them at these places.
create function business_api.hold_deliveries(
  places tid[], token text, claimed_at timestamptz, lease_until timestamptz
) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_indexscan = off
set enable_bitmapscan = off
set enable_tidscan = on
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  update business_api.open_deliveries d
     set attempts = d.attempts + 1, claim_token = $2, claimed_at = $3, lease_until = $4
   where d.ctid = any ($1);
end
$$;

-- Gives claims back: the deliveries are due as before, and the attempts are not counted.
create or replace function business_api.release_deliveries(claims jsonb) returns bigint
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  claim record;
  released bigint := 0;
begin
  for claim in
    select * from jsonb_to_recordset($1) as c ("organizationId" text, "deliveryId" text, token text)
  loop
    update business_api.open_deliveries d
       set attempts = d.attempts - 1, claim_token = null, claimed_at = null, lease_until = null
     where d.organization_id = claim."organizationId" and d.id = claim."deliveryId" and d.claim_token = claim.token;
    if found then
      released := released + 1;
    end if;
  end loop;
  return released;
end
$$;

-- Adds due retries to the deliveries that claims walk over.
create or replace function business_api.promote_due_retries(at_time timestamptz) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  due record;
begin
  for due in
    select d.organization_id, d.id from business_api.open_deliveries d
     where d.is_backing_off and d.due_at <= $1
     order by d.due_at
     limit 500
       for update skip locked
  loop
    update business_api.open_deliveries d set is_backing_off = false
     where d.organization_id = due.organization_id and d.id = due.id;
  end loop;
end
$$;

-- Frees the claimed delivery of a dead process, which the caller has locked. The attempt counts, because the request may have reached
-- the subscriber. Returns the delivery if the call dead-letters it, or an empty array.
--
-- Somebody may have dropped or detached tables of the delivery's day. An error here would keep all claims from all deliveries: the
-- delivery stays claimed for ten minutes more, again and again until the tables are there again. Only a delivery whose event and day
-- are both gone is deleted.
create function business_api.reclaim_lease(
  organization_id text, id text, at_time timestamptz, max_attempts integer
) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  expired record;
  day_name text;
  is_whole boolean := true;
  broken text;
begin
  select d.* into expired from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
  -- By its key: see claim_deliveries.
  perform 1 from business_api.events e
    where e.organization_id = $1 and e.id = expired.event_id
      and e.delivery_prefix >= left($2, 14) and e.delivery_prefix <= $2
    order by e.delivery_prefix limit 1;
  if not found then
    select d.name into day_name from business_api.event_days d
     where d.organization_id = '' and d.begins <= $2 and d.ends > $2 and d.dropped_at is null;
    -- Without any day, row level security hides the days.
    if not found and exists (select 1 from business_api.event_days d where d.organization_id = '') then
      delete from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
      return '[]';
    end if;
    -- A table that was made again lacks the event for good: the delivery ends after its last attempt.
    is_whole := coalesce(
      pg_partition_root(to_regclass('business_api.events_' || day_name)) = 'business_api.events'::regclass, false
    );
  end if;
  if is_whole then
    begin
      insert into business_api.delivery_attempts
        (organization_id, delivery_id, number, started_at, duration_ms, error, body_excerpt)
      values (
        $1, $2, expired.attempts, expired.claimed_at, extract(epoch from expired.lease_until - expired.claimed_at) * 1000,
        'interrupted', ''
      )
      on conflict do nothing;
      if expired.attempts - expired.attempts_before < $4 then
        update business_api.open_deliveries d
           set due_at = $3, claim_token = null, claimed_at = null, lease_until = null
         where d.organization_id = $1 and d.id = $2;
        return '[]';
      end if;
      delete from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
      insert into business_api.finished_deliveries
        (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
      values (
        $1, $2, expired.event_id, expired.type, expired.endpoint_id, 'dead_lettered', 'interrupted', expired.created_at, $3,
        expired.attempts, expired.is_backfill
      );
      return jsonb_build_array(jsonb_build_object(
        'organizationId', $1, 'endpointId', expired.endpoint_id, 'deliveryId', $2, 'eventId', expired.event_id,
        'type', expired.type, 'reason', 'interrupted'
      ));
    exception
      when check_violation then
        -- A missing partition has no name.
        get stacked diagnostics broken = constraint_name;
        if broken <> '' then
          raise;
        end if;
    end;
  end if;
  -- The time of the claim goes along, so that the attempt is not logged as longer than the lease.
  update business_api.open_deliveries d
     set claimed_at = d.claimed_at + ($3 + interval '10 minutes' - d.lease_until), lease_until = $3 + interval '10 minutes'
   where d.organization_id = $1 and d.id = $2;
  return '[]';
end
$$;

-- Frees the claimed deliveries of dead processes. Returns, as JSON, the deliveries that were dead-lettered by the call.
create or replace function business_api.reclaim_expired_leases(max_attempts integer) returns json
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  at_time timestamptz := clock_timestamp();
  expired record;
  dead_letters jsonb := '[]';
begin
  for expired in
    select d.organization_id, d.id from business_api.open_deliveries d
     where d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  loop
    dead_letters := dead_letters || business_api.reclaim_lease(expired.organization_id, expired.id, at_time, max_attempts);
  end loop;
  return dead_letters::json;
end
$$;

-- Skips up to 500 pending deliveries of a disabled or removed endpoint, and up to 500 of backfills; later claims skip the rest.
-- Two selections, because each kind has an index of its own.
create or replace function business_api.skip_pending(organization_id text, endpoint_id text) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  ended jsonb;
  pending text[] := array(
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.endpoint_id = $2
       and d.claim_token is null and not d.is_backing_off and not d.is_backfill
     limit 500
       for update skip locked
  );
  pending_backfills text[] := array(
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.endpoint_id = $2
       and d.claim_token is null and not d.is_backing_off and d.is_backfill
     limit 500
       for update skip locked
  );
begin
  with gone as (
    delete from business_api.open_deliveries d
     where d.organization_id = $1 and d.id = any (pending || pending_backfills)
    returning d.*
  )
  select coalesce(jsonb_agg(g), '[]') into ended from gone g;
  -- A statement of its own: a distributed database takes no insert beside a delete.
  insert into business_api.finished_deliveries
    (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
  select $1, e.id, e.event_id, e.type, e.endpoint_id, 'skipped', 'endpoint_disabled', e.created_at, clock_timestamp(), e.attempts,
         e.is_backfill
    from jsonb_to_recordset(ended) as e (
      id text, event_id text, type text, endpoint_id text, created_at timestamptz, attempts integer, is_backfill boolean
    );
end
$$;

-- Reads the content of deliveries whose claims are in force: see DeliveryStore.read in lib/webhooks/deliveries.ts.
create or replace function business_api.read_claims(claims jsonb) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  organizations text[];
  ids text[];
begin
  select array_agg(d.organization_id order by claim.place), array_agg(d.id order by claim.place) into organizations, ids
    from jsonb_array_elements($1) with ordinality as claim (ref, place)
    cross join lateral (
      select o.organization_id, o.id from business_api.open_deliveries o
       where o.organization_id = claim.ref ->> 'organizationId' and o.id = claim.ref ->> 'deliveryId'
         and o.claim_token = claim.ref ->> 'token'
       limit 1
    ) as d;
  return coalesce(business_api.read_deliveries(organizations, ids)::text, '[]');
end
$$;

-- Reads the content of deliveries for attempts, as a JSON array in the order of the arguments. Deliveries of removed endpoints
-- are left out, because a removed endpoint no longer has a signing secret. The trace of an event is spliced into the text of the
-- delivery, so that a delivery without a trace is not a byte larger.
create or replace function business_api.read_deliveries(organizations text[], ids text[]) returns json
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
  at_time timestamptz := clock_timestamp();
  -- The range of the deliveries, so that the statement opens only the days of their events.
  first_prefix text;
  last_id text;
begin
  select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
    from unnest($2) as claim (id);
  return (
    select coalesce(json_agg(
             case
               when event.traceparent is null then delivery.content
               else ('{"traceparent":' || to_json(event.traceparent) || ',' || substr(delivery.content::text, 2))::json
             end
             order by claim.place
           ), '[]')
      from unnest(organizations, ids) with ordinality as claim (organization_id, id, place)
      -- One by one, each by its key: a plan from a time when the tables were empty would join everything of the period.
      cross join lateral (
        select * from business_api.open_deliveries o
         where o.organization_id = claim.organization_id and o.id = claim.id
         limit 1
      ) as d
      cross join lateral (
        select e.type, e.body, e.traceparent from business_api.events e
         where e.organization_id = claim.organization_id and e.id = d.event_id
           and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
           and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
         order by e.delivery_prefix limit 1
      ) as event
      join business_api.webhook_endpoints endpoint
        on endpoint.organization_id = d.organization_id and endpoint.id = d.endpoint_id and endpoint.state <> 'removed'
     cross join lateral (
       select json_build_object(
                'organizationId', d.organization_id, 'id', d.id, 'endpointId', d.endpoint_id, 'eventId', d.event_id,
                'type', event.type, 'body', event.body, 'url', endpoint.url,
                'headerNames', endpoint.header_names, 'sealedHeaders', endpoint.sealed_headers,
                'standardWebhooks', endpoint.standard_webhooks,
                'sealedSecrets', case
                  when endpoint.previous_secret_expires_at > at_time
                  then json_build_array(endpoint.sealed_secret, endpoint.previous_sealed_secret)
                  else json_build_array(endpoint.sealed_secret)
                end,
                'attempt', d.attempts - d.attempts_before
              ) as content
     ) as delivery
  );
end
$$;

-- Ends attempts whose claims are in force: the deliveries, which the caller has found at `places`, are finished or due again, and the
-- attempts are logged. A place is null for a result whose claim is no longer in force. A delivery that another process has changed
-- since is no longer at its place, or has no longer the token. Returns the written results, as
-- token and delivery, the outcomes by endpoint, and the deliveries that were dead-lettered.
create function business_api.end_attempts(
  results jsonb, places tid[], at_time timestamptz, out written text[], out outcomes jsonb, out dead_letters jsonb
)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_indexscan = off
set enable_bitmapscan = off
set enable_tidscan = on
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  with result as (
    select * from rows from (unnest(places), jsonb_to_recordset(results) as (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "isGone" boolean,
      "delayMs" double precision, "startedAgoMs" double precision, "endedAgoMs" double precision,
      "durationMs" real, "dnsMs" real, "connectMs" real, "tlsMs" real, "firstByteMs" real,
      status integer, error text, "bodyExcerpt" text
    )) as r (place)
  ), due_again as (
    update business_api.open_deliveries d
       set due_at = at_time + (r."delayMs" - r."endedAgoMs") * interval '1 millisecond',
           is_backing_off = r."delayMs" > 0,
           claim_token = null, claimed_at = null, lease_until = null
      from result r
     where r.outcome = 'retry' and d.ctid = r.place and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill, r.*
  ), closed as (
    delete from business_api.open_deliveries d
     using result r
     where r.outcome <> 'retry' and d.ctid = r.place and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill, r.*
  ), finished as (
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
    select c."organizationId", c."deliveryId", c.event_id, c.type, c.endpoint_id, c.outcome, c.reason, c.created_at,
           at_time - c."endedAgoMs" * interval '1 millisecond', c.attempts, c.is_backfill
      from closed c
  ), ended as (
    select * from due_again
    union all
    select * from closed
  ), logged as (
    insert into business_api.delivery_attempts (
      organization_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, first_byte_ms,
      status, error, body_excerpt
    )
    select e."organizationId", e."deliveryId", e.attempts,
           at_time - e."startedAgoMs" * interval '1 millisecond',
           e."durationMs", e."dnsMs", e."connectMs", e."tlsMs", e."firstByteMs", e.status, e.error, e."bodyExcerpt"
      from ended e
     -- No attempt is logged twice: the steps above found the claim's token and took it away, a delivery gets a token only with the
     -- next number, and a claim that is given back has logged nothing.
  ), last_success as (
    select e."organizationId", e.endpoint_id, min(e."endedAgoMs") as ago_ms
      from ended e where e.outcome = 'delivered' group by 1, 2
  ), outcome as (
    -- For an endpoint's health only the failures after the last success among these results count.
    select e."organizationId" as organization_id, e.endpoint_id,
           bool_or(e.outcome = 'delivered') as has_success,
           bool_or(e.is_failure) as has_failure,
           bool_or(e."isGone") as is_gone,
           count(*) filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity')) as failures,
           max(e."endedAgoMs") filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity'))
             as first_failure_ago_ms,
           max(e.token || ' ' || e."deliveryId") filter (where e.is_failure) as failed_attempt
      from (
        -- An attempt that the process interrupted or never made proves nothing about the endpoint.
        select x.*, x.outcome <> 'delivered' and coalesce(x.error, '') not in ('interrupted', 'unreadable') as is_failure
          from ended x
      ) as e
      left join last_success s on s."organizationId" = e."organizationId" and s.endpoint_id = e.endpoint_id
     group by 1, 2
  ), dead_letter as (
    select e."organizationId", e.endpoint_id as "endpointId", e."deliveryId", e.event_id as "eventId", e.type, e.reason
      from ended e
     where e.outcome = 'dead_lettered'
  )
  select coalesce((select array_agg(e.token || ' ' || e."deliveryId") from ended e), '{}'),
         coalesce((select jsonb_agg(o) from outcome o), '[]'),
         coalesce((select jsonb_agg(l) from dead_letter l), '[]')
    into written, outcomes, dead_letters;
end
$$;

-- Counts the failures of an endpoint after results of attempts (`outcome`, see end_attempts), and judges whether the endpoint is failing
-- or disabled now, under a lock on the endpoint's row, so that only one process sends the notice. A row that another transaction holds
-- is skipped, because a wait would hold up the results of others, and a count may be a few failures short. Returns the endpoint in an
-- array if one of the attempts failed, or an empty array.
create function business_api.judge_endpoint(
  organization_id text, outcome jsonb, at_time timestamptz, failure_limit integer, failing_ms double precision
) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  has_success boolean := outcome ->> 'has_success';
  has_failure boolean := outcome ->> 'has_failure';
  endpoint record;
  failures_now integer := outcome ->> 'failures';
  failing_now timestamptz;
  is_new_streak boolean;
  is_disabled_now boolean;
  is_failing_now boolean;
begin
  select e.id, e.state, e.failures, e.failing_since, e.disabled_reason, e.noticed_attempt into endpoint
    from business_api.webhook_endpoints e
   where e.organization_id = $1 and e.id = outcome ->> 'endpoint_id' and (has_failure or e.failures > 0) and e.state <> 'removed'
     for no key update skip locked;
  if not found then
    return '[]';
  end if;
  is_new_streak := has_success or endpoint.failing_since is null;
  if not has_success then
    failures_now := failures_now + endpoint.failures;
  end if;
  failing_now := case
    when is_new_streak then at_time - (outcome ->> 'first_failure_ago_ms')::double precision * interval '1 millisecond'
    else endpoint.failing_since
  end;
  is_disabled_now := coalesce(
    endpoint.state in ('enabled', 'paused') and (
      (outcome ->> 'is_gone')::boolean
      or failures_now >= failure_limit and failing_now <= at_time - failing_ms * interval '1 millisecond'
    ), false
  );
  is_failing_now := not is_disabled_now and has_failure and endpoint.state in ('enabled', 'paused')
    and failures_now * 2 >= failure_limit and (is_new_streak or endpoint.noticed_attempt is null);
  if is_disabled_now then
    endpoint.state := 'disabled';
    endpoint.disabled_reason := case when (outcome ->> 'is_gone')::boolean then 'gone' else 'failing' end;
  end if;
  endpoint.noticed_attempt := case
    when is_disabled_now or is_failing_now then outcome ->> 'failed_attempt'
    when not is_new_streak then endpoint.noticed_attempt
  end;
  update business_api.webhook_endpoints e
     set failures = failures_now, failing_since = failing_now, state = endpoint.state,
         disabled_reason = endpoint.disabled_reason, noticed_attempt = endpoint.noticed_attempt
   where e.organization_id = $1 and e.id = endpoint.id;
  if not has_failure then
    return '[]';
  end if;
  return jsonb_build_array(jsonb_build_object(
    'organizationId', $1, 'endpointId', endpoint.id, 'state', endpoint.state, 'failures', failures_now,
    'failingSince', to_char(failing_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'disabledReason', endpoint.disabled_reason, 'isNewlyFailing', is_failing_now, 'isNewlyDisabled', is_disabled_now
  ));
end
$$;

-- Repeats the answer for results that an earlier call wrote, with an answer that was lost. A result that came too late is not
-- repeated: the delivery has ended in another way, or not at all, and no endpoint names the attempt. A result is lost if the log
-- of the delivery does not hold the attempt.
create or replace function business_api.recall_attempt_results(results jsonb, written text[], failure_limit integer) returns jsonb
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  result record;
  delivery record;
  endpoint record;
  endpoints jsonb := '[]';
  dead_letters jsonb := '[]';
  lost jsonb := '[]';
begin
  for result in
    select * from jsonb_to_recordset(results) as r (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "durationMs" real, status integer, error text
    )
     where r.token || ' ' || r."deliveryId" <> all (written)
  loop
    if not exists (
      select 1 from business_api.delivery_attempts a
       where a.organization_id = result."organizationId" and a.delivery_id = result."deliveryId"
         and a.duration_ms = result."durationMs" and a.status is not distinct from result.status
         and a.error is not distinct from result.error
    ) then
      lost := lost || jsonb_build_object(
        'organizationId', result."organizationId", 'deliveryId', result."deliveryId", 'token', result.token
      );
    end if;
    select o.event_id, o.type, o.endpoint_id, 'open' as state, null as reason into delivery
      from business_api.open_deliveries o
     where o.organization_id = result."organizationId" and o.id = result."deliveryId";
    if not found then
      select f.event_id, f.type, f.endpoint_id, f.state, f.reason into delivery
        from business_api.finished_deliveries f
       where f.organization_id = result."organizationId" and f.id = result."deliveryId";
      continue when not found;
    end if;
    if delivery.state = 'dead_lettered' and result.outcome = 'dead_lettered' and delivery.reason = result.reason then
      dead_letters := dead_letters || jsonb_build_object(
        'organizationId', result."organizationId", 'endpointId', delivery.endpoint_id, 'deliveryId', result."deliveryId",
        'eventId', delivery.event_id, 'type', delivery.type, 'reason', delivery.reason
      );
    end if;
    select e.id, e.state, e.failures, e.failing_since, e.disabled_reason into endpoint
      from business_api.webhook_endpoints e
     where e.organization_id = result."organizationId" and e.id = delivery.endpoint_id and e.state <> 'removed'
       and e.noticed_attempt = result.token || ' ' || result."deliveryId";
    if found then
      endpoints := endpoints || jsonb_build_object(
        'organizationId', result."organizationId", 'endpointId', endpoint.id, 'state', endpoint.state,
        'failures', endpoint.failures,
        'failingSince', to_char(endpoint.failing_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'disabledReason', endpoint.disabled_reason,
        -- An administrator may have enabled or disabled the endpoint after the attempt.
        'isNewlyFailing', endpoint.state <> 'disabled' and endpoint.failures * 2 >= failure_limit,
        'isNewlyDisabled', endpoint.state = 'disabled' and endpoint.disabled_reason <> 'administrator'
      );
    end if;
  end loop;
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'deadLetters', dead_letters);
end
$$;

-- Answers a loop that has written results of attempts: judges the endpoints, and repeats the answer for results that were not written
-- now. Returns, as JSON, the results whose claim was no longer in force, the endpoints with a failed attempt, and the deliveries that
-- were dead-lettered.
create function business_api.report_results(
  results jsonb, written text[], outcomes jsonb[], dead_letters jsonb, at_time timestamptz, failure_limit integer,
  failing_ms double precision
) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  outcome jsonb;
  endpoints jsonb := '[]';
  recalled jsonb;
  lost jsonb := '[]';
begin
  foreach outcome in array outcomes loop
    endpoints := endpoints
      || business_api.judge_endpoint(outcome ->> 'organization_id', outcome, at_time, failure_limit, failing_ms);
  end loop;
  if cardinality(written) < jsonb_array_length(results) then
    recalled := business_api.recall_attempt_results(results, written, failure_limit);
    endpoints := endpoints || (recalled -> 'endpoints');
    dead_letters := dead_letters || (recalled -> 'deadLetters');
    lost := recalled -> 'lost';
  end if;
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'deadLetters', dead_letters)::text;
end
$$;

-- Writes the results of attempts: see DeliveryStore.writeResults in lib/webhooks/deliveries.ts. Returns the answer of report_results.
create or replace function business_api.write_attempt_results(results jsonb, failure_limit integer, failing_ms double precision)
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
  ended record;
begin
  -- A result lost in a crash costs one more attempt.
  perform set_config('synchronous_commit', 'off', true);
  select * into ended
    from business_api.end_attempts(results, array(
      select open.place
        from jsonb_to_recordset(results) as r ("organizationId" text, "deliveryId" text, token text)
        left join lateral (
          select d.ctid as place from business_api.open_deliveries d
           where d.organization_id = r."organizationId" and d.id = r."deliveryId" and d.claim_token = r.token
           limit 1
        ) as open on true
    ), at_time);
  return business_api.report_results(
    results, ended.written,
    -- Most endpoints are healthy, and stay as they are.
    array(
      select o.value
        from jsonb_array_elements(ended.outcomes) as o
        cross join lateral (
          select 1 from business_api.webhook_endpoints e
           where e.organization_id = o.value ->> 'organization_id' and e.id = o.value ->> 'endpoint_id'
             and ((o.value ->> 'has_failure')::boolean or e.failures > 0)
           limit 1
        ) as changing
    ),
    ended.dead_letters, at_time, failure_limit, failing_ms
  );
end
$$;

-- Reads the status and the error of the last attempt of deliveries: one descent of the primary key for each, in the days of the
-- deliveries.
create function business_api.last_attempts(organization_id text, delivery_ids text[])
returns table (delivery_id text, status integer, error text)
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  first_id text;
  last_id text;
begin
  select min(wanted.id collate "C"), max(wanted.id collate "C") into first_id, last_id from unnest($2) as wanted (id);
  return query
    select wanted.id, last.status, last.error
      from unnest($2) as wanted (id)
      cross join lateral (
        select a.status, a.error from business_api.delivery_attempts a
         where a.organization_id = $1 and a.delivery_id = wanted.id and a.delivery_id >= first_id and a.delivery_id <= last_id
         order by a.number desc
         limit 1
      ) as last;
end
$$;
