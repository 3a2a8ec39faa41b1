-- Claims and results of attempts, which open the days of their deliveries and no other: an event is found by its id and by the day of
-- the delivery. 0016-due-deliveries.sql says why each function limits the planner. One more limit is here: in a table that seemed to
-- be empty the planner joins a list of keys the wrong way round, and compares each row of the table with the list. So lists are looked
-- up one by one (lateral, with a limit), and the rows are changed where they were found: by ctid, all other scans off. The snapshot of
-- the call keeps a place from being used again before the call ends.
-- Locks: none.

-- Claims deliveries: see DeliveryStore.claim in lib/webhooks/deliveries.ts. A claim walks over the pending deliveries from
-- endpoint to endpoint (round robin). Each step is one descent of the index, so that a claim costs the same with a thousand
-- pending deliveries and with a million. PostgreSQL knows the sizes of bodies without reading the bodies. Claims do not wait for
-- the disk: a claim that a crash undoes is made again. Deliveries of backfills come last: see pick_backfills.
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
  -- The range of the claimed deliveries, so that a statement opens only the days of their events.
  first_prefix text;
  last_id text;
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
         limit 1
      ) as event
  ) > byte_budget then
    select coalesce(array_agg(s.place) filter (where s.bytes > byte_budget), '{}'),
           min(s.place) filter (where s.bytes <= byte_budget and s.bytes_so_far > byte_budget)
      into unread_places, cut
      from (
        select claim.place, octet_length(event.body) as bytes,
               sum(octet_length(event.body)) filter (where octet_length(event.body) <= byte_budget)
                 over (order by claim.place) as bytes_so_far
          from unnest(organizations, events, ids) with ordinality as claim (organization_id, event_id, id, place)
          cross join lateral (
            select e.body from business_api.events e
             where e.organization_id = claim.organization_id and e.id = claim.event_id
               and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
               and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
             limit 1
          ) as event
      ) as s;
    if cut is not null then
      -- Deliveries of a repeated claim that do not fit into the answer become due again.
      perform business_api.release_deliveries((
        select jsonb_agg(jsonb_build_object('organizationId', rest.organization_id, 'deliveryId', rest.id, 'token', $1))
          from unnest(organizations[cut:repeated], ids[cut:repeated]) as rest (organization_id, id)
      ));
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
    perform business_api.hold_deliveries(
      array(
        select open.place
          from unnest(organizations[repeated + 1:], ids[repeated + 1:]) as claim (organization_id, id)
          cross join lateral (
            select d.ctid as place from business_api.open_deliveries d
             where d.organization_id = claim.organization_id and d.id = claim.id
             limit 1
          ) as open
      ),
      token, at_time, at_time + lease_ms * interval '1 millisecond'
    );
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

-- Frees the claimed deliveries of dead processes. The attempt counts, because the request may have reached the subscriber.
-- Returns, as JSON, the deliveries that were dead-lettered by the call.
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
    select d.* from business_api.open_deliveries d
     where d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  loop
    if expired.attempts - expired.attempts_before < $1 then
      update business_api.open_deliveries d
         set due_at = at_time, claim_token = null, claimed_at = null, lease_until = null
       where d.organization_id = expired.organization_id and d.id = expired.id;
    else
      delete from business_api.open_deliveries d
       where d.organization_id = expired.organization_id and d.id = expired.id;
      insert into business_api.finished_deliveries
        (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
      values (
        expired.organization_id, expired.id, expired.event_id, expired.type, expired.endpoint_id, 'dead_lettered', 'interrupted',
        expired.created_at, at_time, expired.attempts, expired.is_backfill
      );
      dead_letters := dead_letters || jsonb_build_object(
        'organizationId', expired.organization_id, 'endpointId', expired.endpoint_id, 'deliveryId', expired.id,
        'eventId', expired.event_id, 'type', expired.type, 'reason', 'interrupted'
      );
    end if;
    insert into business_api.delivery_attempts
      (organization_id, delivery_id, number, started_at, duration_ms, error, body_excerpt)
    values (
      expired.organization_id, expired.id, expired.attempts, expired.claimed_at,
      extract(epoch from expired.lease_until - expired.claimed_at) * 1000, 'interrupted', ''
    )
    on conflict do nothing;
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
declare
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
  with ended as (
    delete from business_api.open_deliveries d
     where d.organization_id = $1 and d.id = any (pending || pending_backfills)
    returning d.*
  )
  insert into business_api.finished_deliveries
    (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
  select e.organization_id, e.id, e.event_id, e.type, e.endpoint_id, 'skipped', 'endpoint_disabled', e.created_at,
         clock_timestamp(), e.attempts, e.is_backfill
    from ended e;
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
         limit 1
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

-- Writes the results of attempts: see DeliveryStore.writeResults in lib/webhooks/deliveries.ts. Returns, as JSON, the results
-- whose claim was no longer in force, the endpoints with a failed attempt, and the deliveries that were dead-lettered. An
-- endpoint is judged failing or disabled under a lock on the endpoint's row, so that only one process sends the notice.
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
  dead_letters jsonb;
  endpoints jsonb;
  recalled jsonb;
  lost jsonb := '[]';
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

  with outcome as (
    -- Only outcomes that change an endpoint. A row that another transaction holds is skipped, because a wait would hold up the
    -- results of all other organizations, and a count may be a few failures short.
    select o.*, e.failures as failures_before, e.failing_since as failing_before, e.state as state_before,
           e.noticed_attempt as noticed_before, o.has_success or e.failing_since is null as is_new_streak
      from jsonb_to_recordset(ended.outcomes) as o (
        organization_id text, endpoint_id text, has_success boolean, has_failure boolean, is_gone boolean,
        failures integer, first_failure_ago_ms double precision, failed_attempt text
      )
      join business_api.webhook_endpoints e on e.organization_id = o.organization_id and e.id = o.endpoint_id
     where (o.has_failure or e.failures > 0) and e.state <> 'removed'
       for no key update of e skip locked
  ), counted as (
    select o.*,
           case when o.has_success then o.failures else o.failures_before + o.failures end as failures_now,
           case
             when o.is_new_streak
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
  ), noticed as (
    select j.*,
           not j.is_disabled_now and j.has_failure and j.state_before in ('enabled', 'paused')
             and j.failures_now * 2 >= failure_limit and (j.is_new_streak or j.noticed_before is null) as is_failing_now
      from judged j
  ), changed as (
    update business_api.webhook_endpoints e
       set failures = n.failures_now, failing_since = n.failing_now,
           state = case when n.is_disabled_now then 'disabled' else e.state end,
           disabled_reason = case
             when n.is_disabled_now then case when n.is_gone then 'gone' else 'failing' end
             else e.disabled_reason
           end,
           noticed_attempt = case
             when n.is_disabled_now or n.is_failing_now then n.failed_attempt
             when not n.is_new_streak then e.noticed_attempt
           end
      from noticed n
     where e.organization_id = n.organization_id and e.id = n.endpoint_id
    returning e.organization_id, e.id, e.state, e.disabled_reason, e.failures, e.failing_since,
              n.has_failure, n.is_failing_now, n.is_disabled_now
  )
  select coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', c.organization_id, 'endpointId', c.id, 'state', c.state, 'failures', c.failures,
           'failingSince', to_char(c.failing_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
           'disabledReason', c.disabled_reason,
           'isNewlyFailing', c.is_failing_now, 'isNewlyDisabled', c.is_disabled_now
         )) filter (where c.has_failure), '[]')
    into endpoints
    from changed c;

  dead_letters := ended.dead_letters;
  if cardinality(ended.written) < jsonb_array_length(results) then
    recalled := business_api.recall_attempt_results(results, ended.written, failure_limit);
    endpoints := endpoints || (recalled -> 'endpoints');
    dead_letters := dead_letters || (recalled -> 'deadLetters');
    lost := recalled -> 'lost';
  end if;
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'deadLetters', dead_letters)::text;
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
