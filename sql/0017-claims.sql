-- Claims: delivery loops take deliveries, and give deliveries back. 0016-due-deliveries.sql says why each function limits the
-- planner.
-- Locks: nothing in use; every object is new.

-- Claims deliveries: see DeliveryStore.claim in lib/webhooks/deliveries.ts. A claim walks over the pending deliveries from
-- endpoint to endpoint (round robin). Each step is one descent of the index, so that a claim costs the same with a thousand
-- pending deliveries and with a million. PostgreSQL knows the sizes of bodies without reading the bodies. Claims do not wait for
-- the disk: a claim that a crash undoes is made again. Deliveries of backfills come last: see pick_backfills.
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
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  at_time timestamptz;
  -- The claimed deliveries; the deliveries of a repeated claim come first.
  organizations text[] := '{}';
  ids text[] := '{}';
  endpoints text[] := '{}';
  events text[] := '{}';
  repeated integer := 0;
  claimed integer := 0;
  found_ids text[];
  found_events text[];
  here_organization text := coalesce(after_organization, '');
  here_endpoint text := coalesce(after_endpoint, '');
  next_organization text;
  next_endpoint text;
  endpoint_state text;
  budget integer;
  -- Place of the first delivery whose body no longer fits into byte_budget, and which is left for the next claim.
  cut integer;
  unread_places bigint[] := '{}';
  unread json := '[]';
  endpoints_read integer := 0;
  has_wrapped boolean := after_organization is null;
  is_complete boolean := false;
  backfill record;
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
    claimed := repeated;
  end if;

  while claimed < claim_limit and endpoints_read < endpoint_limit loop
    select d.organization_id, d.endpoint_id into next_organization, next_endpoint
      from business_api.open_deliveries d
     where d.claim_token is null and not d.is_backing_off and not d.is_backfill
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
    endpoints_read := endpoints_read + 1;

    select e.state into endpoint_state from business_api.webhook_endpoints e
     where e.organization_id = here_organization and e.id = here_endpoint;
    if endpoint_state = 'paused' then
      continue;
    elsif endpoint_state is distinct from 'enabled' then
      perform business_api.skip_pending(here_organization, here_endpoint);
      continue;
    end if;

    budget := least(
      claim_limit - claimed,
      coalesce((endpoint_budgets ->> here_endpoint)::integer, endpoint_budget)
        - coalesce(cardinality(array_positions(endpoints[:repeated], here_endpoint)), 0),
      coalesce((organization_budgets ->> here_organization)::integer, organization_budget)
        - coalesce(cardinality(array_positions(organizations, here_organization)), 0)
    );
    if budget > 0 then
      select coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.event_id), '{}') into found_ids, found_events
        from (
          select d.id, d.event_id from business_api.open_deliveries d
           where d.claim_token is null and not d.is_backing_off and not d.is_backfill
             and d.organization_id = here_organization and d.endpoint_id = here_endpoint
           order by d.is_retry, d.id limit budget for update skip locked
        ) as f;
      ids := ids || found_ids;
      events := events || found_events;
      organizations := organizations || array_fill(here_organization, array[cardinality(found_ids)]);
      endpoints := endpoints || array_fill(here_endpoint, array[cardinality(found_ids)]);
      claimed := cardinality(ids);
    end if;
  end loop;

  if claimed < claim_limit and exists (
    select 1 from business_api.open_deliveries d where d.claim_token is null and not d.is_backing_off and d.is_backfill
  ) then
    select * into backfill from business_api.pick_backfills(
      at_time, is_complete, claim_limit - claimed, endpoint_limit, after_organization, after_endpoint,
      endpoint_budget, organization_budget, endpoint_budgets, organization_budgets, organizations, endpoints
    );
    ids := ids || backfill.ids;
    events := events || backfill.events;
    organizations := organizations || backfill.organizations;
    endpoints := endpoints || backfill.endpoints;
    claimed := cardinality(ids);
    if is_complete and not backfill.is_complete then
      is_complete := false;
      here_organization := backfill.here_organization;
      here_endpoint := backfill.here_endpoint;
    end if;
  end if;

  if claimed > 0 and byte_budget <= 0 then
    -- Neither bodies nor sizes of bodies are read, because an unreadable row must not hold up a claim.
    unread_places := array(select generate_series(1, claimed));
  elsif claimed > 0 and (
    -- Almost every claim fits, and this sum costs half as much as the places of the deliveries that do not fit.
    select sum(octet_length(event.body))
      from unnest(organizations, events) as claim (organization_id, id)
      join business_api.events event on event.organization_id = claim.organization_id and event.id = claim.id
  ) > byte_budget then
    select coalesce(array_agg(s.place) filter (where s.bytes > byte_budget), '{}'),
           min(s.place) filter (where s.bytes <= byte_budget and s.bytes_so_far > byte_budget)
      into unread_places, cut
      from (
        select claim.place, octet_length(event.body) as bytes,
               sum(octet_length(event.body)) filter (where octet_length(event.body) <= byte_budget)
                 over (order by claim.place) as bytes_so_far
          from unnest(organizations, events) with ordinality as claim (organization_id, id, place)
          join business_api.events event on event.organization_id = claim.organization_id and event.id = claim.id
      ) as s;
    if cut is not null then
      -- Deliveries of a repeated claim that do not fit into the answer become due again.
      update business_api.open_deliveries d
         set attempts = d.attempts - 1, claim_token = null, claimed_at = null, lease_until = null
        from unnest(organizations[cut:repeated], ids[cut:repeated]) as rest (organization_id, id)
       where d.organization_id = rest.organization_id and d.id = rest.id and d.claim_token = $1;
      repeated := least(repeated, cut - 1);
      organizations := organizations[:cut - 1];
      ids := ids[:cut - 1];
      endpoints := endpoints[:cut - 1];
      is_complete := false;
      here_organization := organizations[cut - 1];
      here_endpoint := endpoints[cut - 1];
    end if;
  end if;

  if claimed > repeated then
    update business_api.open_deliveries d
       set attempts = d.attempts + 1, claim_token = $1, claimed_at = at_time,
           lease_until = at_time + lease_ms * interval '1 millisecond'
      from unnest(organizations[repeated + 1:], ids[repeated + 1:]) as claim (organization_id, id)
     where d.organization_id = claim.organization_id and d.id = claim.id;
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

-- Picks due deliveries of backfills for a claim, after all other deliveries, by the same round robin and within the capacity that
-- the claim has left. If the claim has not inspected every endpoint (`is_rest` is false), an organization with another delivery to
-- be sent is left out: the next claim may take that delivery. The picked deliveries are locked; the claim changes them.
create function business_api.pick_backfills(
  at_time timestamptz,
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
  out here_organization text,
  out here_endpoint text,
  out is_complete boolean
)
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
  next_organization text;
  next_endpoint text;
  endpoint_state text;
  budget integer;
  found_ids text[];
  found_events text[];
  endpoints_read integer := 0;
  has_wrapped boolean := after_organization is null;
begin
  organizations := '{}';
  ids := '{}';
  endpoints := '{}';
  events := '{}';
  here_organization := coalesce(after_organization, '');
  here_endpoint := coalesce(after_endpoint, '');
  is_complete := false;
  while cardinality(ids) < pick_limit and endpoints_read < endpoint_limit loop
    select d.organization_id, d.endpoint_id into next_organization, next_endpoint
      from business_api.open_deliveries d
     where d.claim_token is null and not d.is_backing_off and d.is_backfill
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
    endpoints_read := endpoints_read + 1;

    select e.state into endpoint_state from business_api.webhook_endpoints e
     where e.organization_id = here_organization and e.id = here_endpoint;
    if endpoint_state = 'paused' then
      continue;
    elsif endpoint_state is distinct from 'enabled' then
      perform business_api.skip_pending(here_organization, here_endpoint);
      continue;
    end if;
    if not is_rest and exists (
      select 1 from business_api.webhook_endpoints e
       where e.organization_id = here_organization and e.state = 'enabled' and exists (
         select 1 from business_api.open_deliveries d
          where d.claim_token is null and not d.is_backing_off and not d.is_backfill
            and d.organization_id = e.organization_id and d.endpoint_id = e.id
       )
    ) then
      continue;
    end if;

    budget := least(
      pick_limit - cardinality(ids),
      coalesce((endpoint_budgets ->> here_endpoint)::integer, endpoint_budget)
        - coalesce(cardinality(array_positions(claimed_endpoints, here_endpoint)), 0),
      coalesce((organization_budgets ->> here_organization)::integer, organization_budget)
        - coalesce(cardinality(array_positions(claimed_organizations || organizations, here_organization)), 0)
    );
    if budget > 0 then
      select coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.event_id), '{}') into found_ids, found_events
        from (
          select d.id, d.event_id from business_api.open_deliveries d
           where d.claim_token is null and not d.is_backing_off and d.is_backfill
             and d.organization_id = here_organization and d.endpoint_id = here_endpoint
           order by d.is_retry, d.id limit budget for update skip locked
        ) as f;
      ids := ids || found_ids;
      events := events || found_events;
      organizations := organizations || array_fill(here_organization, array[cardinality(found_ids)]);
      endpoints := endpoints || array_fill(here_endpoint, array[cardinality(found_ids)]);
    end if;
  end loop;
end
$$;

-- Reads the content of deliveries for attempts, as a JSON array in the order of the arguments. Deliveries of removed endpoints
-- are left out, because a removed endpoint no longer has a signing secret. The trace of an event is spliced into the text of the
-- delivery, so that a delivery without a trace is not a byte larger.
create function business_api.read_deliveries(organizations text[], ids text[]) returns json
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
begin
  return (
    select coalesce(json_agg(
             case
               when event.traceparent is null then delivery.content
               else ('{"traceparent":' || to_json(event.traceparent) || ',' || substr(delivery.content::text, 2))::json
             end
             order by claim.place
           ), '[]')
      from unnest(organizations, ids) with ordinality as claim (organization_id, id, place)
      join business_api.open_deliveries d on d.organization_id = claim.organization_id and d.id = claim.id
      join business_api.events event on event.organization_id = d.organization_id and event.id = d.event_id
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

-- Reads the content of deliveries whose claims are in force: see DeliveryStore.read in lib/webhooks/deliveries.ts.
create function business_api.read_claims(claims jsonb) returns text
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
    join business_api.open_deliveries d
      on d.organization_id = claim.ref ->> 'organizationId' and d.id = claim.ref ->> 'deliveryId'
     and d.claim_token = claim.ref ->> 'token';
  return coalesce(business_api.read_deliveries(organizations, ids)::text, '[]');
end
$$;

-- Skips up to 500 pending deliveries of a disabled or removed endpoint, and up to 500 of backfills; later claims skip the rest.
-- Two selections, because each kind has an index of its own.
create function business_api.skip_pending(organization_id text, endpoint_id text) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  with pending as materialized (
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.endpoint_id = $2
       and d.claim_token is null and not d.is_backing_off and not d.is_backfill
     limit 500
       for update skip locked
  ), pending_backfill as materialized (
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.endpoint_id = $2
       and d.claim_token is null and not d.is_backing_off and d.is_backfill
     limit 500
       for update skip locked
  ), ended as (
    delete from business_api.open_deliveries d
     using (select id from pending union all select id from pending_backfill) as skipped
     where d.organization_id = $1 and d.id = skipped.id
    returning d.*
  )
  insert into business_api.finished_deliveries
    (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
  select e.organization_id, e.id, e.event_id, e.type, e.endpoint_id, 'skipped', 'endpoint_disabled', e.created_at,
         clock_timestamp(), e.attempts, e.is_backfill
    from ended e;
end
$$;

-- Gives claims back: the deliveries are due as before, and the attempts are not counted.
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
  update business_api.open_deliveries d
     set attempts = d.attempts - 1, claim_token = null, claimed_at = null, lease_until = null
    from jsonb_to_recordset($1) as claim ("organizationId" text, "deliveryId" text, token text)
   where d.organization_id = claim."organizationId" and d.id = claim."deliveryId" and d.claim_token = claim.token;
  get diagnostics released = row_count;
  return released;
end
$$;
