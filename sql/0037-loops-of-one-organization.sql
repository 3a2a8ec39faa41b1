-- The delivery loop's work on a distributed database. There each function below belongs to one organization, and the node with the
-- organization's rows carries the function out as a whole. A look at the nodes (find_due_deliveries) says which organizations have
-- something to do; it locks nothing. lib/postgres/distributed/claims.ts puts the parts together. On one PostgreSQL the loop calls
-- claim_deliveries and write_attempt_results instead, which do the same for all organizations in one call.
-- 0016-due-deliveries.sql says why each function limits the planner.
-- Claims and results wait for the disk here, as those of 0031 do not: a shard moves with the log that is written out when its writers
-- stop, and a commit that is not written out by then stays behind.
-- Locks: none.

-- Returns whether the tables are distributed over the nodes of a cluster.
create function business_api.is_distributed() returns boolean
language plpgsql stable
set search_path = ''
as $$
declare
  is_placed boolean := false;
begin
  if to_regclass('pg_catalog.pg_dist_partition') is not null then
    execute 'select exists (select 1 from pg_catalog.pg_dist_partition where logicalrelid = ''business_api.open_deliveries''::regclass)'
      into is_placed;
  end if;
  return is_placed;
end
$$;

-- Returns the tables with the rows of this node: of each shard the open and finished deliveries and the endpoints. On one PostgreSQL
-- these are the tables themselves. With an organization: the shard of the organization only, if this node has the shard.
create function business_api.tables_of_node(of_organization text default null)
returns table (deliveries text, finished text, endpoints text)
language plpgsql stable rows 8
set search_path = ''
as $$
begin
  if not business_api.is_distributed() then
    return query
      select 'business_api.open_deliveries', 'business_api.finished_deliveries', 'business_api.webhook_endpoints';
    return;
  end if;
  return query execute '
    select pg_catalog.shard_name(d.logicalrelid, d.shardid), pg_catalog.shard_name(f.logicalrelid, f.shardid),
           pg_catalog.shard_name(e.logicalrelid, e.shardid)
      from pg_catalog.pg_dist_placement p
      join pg_catalog.pg_dist_local_group here on here.groupid = p.groupid
      join pg_catalog.pg_dist_shard d
        on d.shardid = p.shardid and d.logicalrelid = ''business_api.open_deliveries''::regclass
      join pg_catalog.pg_dist_shard f
        on f.shardminvalue = d.shardminvalue and f.logicalrelid = ''business_api.finished_deliveries''::regclass
      join pg_catalog.pg_dist_shard e
        on e.shardminvalue = d.shardminvalue and e.logicalrelid = ''business_api.webhook_endpoints''::regclass
     where $1 is null
        or d.shardid = pg_catalog.get_shard_id_for_distribution_column(''business_api.open_deliveries''::regclass, $1)'
    using of_organization;
end
$$;

-- Finds the endpoints of this node with deliveries to claim, without locks. Returns a JSON array of rows
-- [reason, organization, endpoint, state of the endpoint, is a backfill, lap, number of deliveries]:
-- `due`: of each shard up to endpoint_limit endpoints after a place (lap 0), and as many from the beginning to the place (lap 1), in
-- the order of a claim; `expired` and `retry`: the first 500 deliveries with an expired lease, and the first 500 due retries;
-- `claimed`: in flight under a token. At most count_limit deliveries of an endpoint are counted.
create function business_api.find_due_deliveries(
  token text, after_organization text, after_endpoint text, endpoint_limit integer, count_limit integer
) returns text
language plpgsql volatile
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
declare
  at_time timestamptz := clock_timestamp();
  source record;
  part json;
  parts json[] := '{}';
begin
  for source in select t.deliveries, t.endpoints from business_api.tables_of_node() as t loop
    begin
      execute format(
        $query$
        with recursive due (organization_id, endpoint_id, lap, place) as (
          values (coalesce($2, '') collate "C", coalesce($3, '') collate "C", 0, 0), ('', '', 1, 0)
          union all
          select next.organization_id, next.endpoint_id, due.lap, due.place + 1
            from due
            cross join lateral (
              select d.organization_id, d.endpoint_id from %1$s d
               where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                 and (d.organization_id, d.endpoint_id) > (due.organization_id, due.endpoint_id)
               order by d.organization_id, d.endpoint_id limit 1
            ) as next
           where due.place < $4 and (due.lap = 0 or (next.organization_id, next.endpoint_id) <= ($2, $3))
        ), due_backfill (organization_id, endpoint_id, lap, place) as (
          values (coalesce($2, '') collate "C", coalesce($3, '') collate "C", 0, 0), ('', '', 1, 0)
          union all
          select next.organization_id, next.endpoint_id, due_backfill.lap, due_backfill.place + 1
            from due_backfill
            cross join lateral (
              select d.organization_id, d.endpoint_id from %1$s d
               where d.claim_token is null and not d.is_backing_off and d.is_backfill
                 and (d.organization_id, d.endpoint_id) > (due_backfill.organization_id, due_backfill.endpoint_id)
               order by d.organization_id, d.endpoint_id limit 1
            ) as next
           where due_backfill.place < $4 and (due_backfill.lap = 0 or (next.organization_id, next.endpoint_id) <= ($2, $3))
        ), found as (
          select 'due' as reason, w.organization_id, w.endpoint_id, false as is_backfill, w.lap, counted.total
            from due w
            cross join lateral (
              select count(*) as total
                from (
                  select 1 from %1$s d
                   where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                     and d.organization_id = w.organization_id and d.endpoint_id = w.endpoint_id
                   limit $5
                ) as f
            ) as counted
           where w.place > 0
          union all
          select 'due', w.organization_id, w.endpoint_id, true, w.lap, counted.total
            from due_backfill w
            cross join lateral (
              select count(*) as total
                from (
                  select 1 from %1$s d
                   where d.claim_token is null and not d.is_backing_off and d.is_backfill
                     and d.organization_id = w.organization_id and d.endpoint_id = w.endpoint_id
                   limit $5
                ) as f
            ) as counted
           where w.place > 0
          union all
          select 'expired', f.organization_id, f.endpoint_id, f.is_backfill, null, count(*)
            from (
              select d.organization_id, d.endpoint_id, d.is_backfill from %1$s d
               where d.lease_until <= $6 order by d.lease_until limit 500
            ) as f
           group by f.organization_id, f.endpoint_id, f.is_backfill
          union all
          select 'retry', f.organization_id, f.endpoint_id, f.is_backfill, null, count(*)
            from (
              select d.organization_id, d.endpoint_id, d.is_backfill from %1$s d
               where d.is_backing_off and d.due_at <= $6 order by d.due_at limit 500
            ) as f
           group by f.organization_id, f.endpoint_id, f.is_backfill
          union all
          select 'claimed', d.organization_id, d.endpoint_id, false, null, count(*) from %1$s d
           where $1 is not null and d.lease_until > $6 and d.claim_token = $1
           group by d.organization_id, d.endpoint_id
        )
        select json_agg(json_build_array(
                 f.reason, f.organization_id, f.endpoint_id, e.state, f.is_backfill, f.lap, f.total
               ))
          from found f
          left join lateral (
            select w.state from %2$s w where w.organization_id = f.organization_id and w.id = f.endpoint_id
          ) as e on true
        $query$,
        source.deliveries, source.endpoints
      ) into part using token, after_organization, after_endpoint, endpoint_limit, count_limit, at_time;
      if part is not null then
        parts := parts || part;
      end if;
    exception
      -- The shard was moved to another node a moment ago.
      when undefined_table then null;
    end;
  end loop;
  return coalesce((select json_agg(r.value) from unnest(parts) as p, json_array_elements(p) as r), '[]')::text;
end
$$;

-- Frees the claimed deliveries of dead processes, as reclaim_expired_leases does.
create function business_api.reclaim_leases_of(organization_id text, max_attempts integer) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  expired_id text;
  dead_letters jsonb := '[]';
begin
  perform business_api.hold_shard($1);
  for expired_id in
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  loop
    dead_letters := dead_letters || business_api.reclaim_lease($1, expired_id, at_time, $2);
  end loop;
  return dead_letters::text;
end
$$;

-- Adds due retries of an organization to the deliveries that claims walk over.
create function business_api.promote_retries_of(organization_id text, at_time timestamptz) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  due_ids text[];
begin
  select array_agg(f.id) into due_ids
    from (
      select d.id from business_api.open_deliveries d
       where d.organization_id = $1 and d.is_backing_off and d.due_at <= $2
       order by d.due_at
       limit 500
         for update skip locked
    ) as f;
  if due_ids is not null then
    update business_api.open_deliveries d set is_backing_off = false where d.organization_id = $1 and d.id = any (due_ids);
  end if;
end
$$;

-- Claims deliveries of an organization: `targets` is a JSON array of endpoints in the order of the claim, each with a `budget` and
-- whether backfills are meant; `is_rest` as in pick_deliveries. A repeated claim gives the deliveries that are in flight under the
-- token first. `byte_limit` is the size from which a body is left to be read on its own, and `byte_budget` the size of all bodies
-- of this answer: the first delivery that does not fit ends the claim. Returns, as JSON, the deliveries, those without content, and
-- the endpoint of the delivery that did not fit.
create function business_api.claim_organization(
  organization_id text,
  token text,
  is_repeat boolean,
  targets jsonb,
  is_rest boolean,
  byte_limit integer,
  byte_budget integer,
  lease_ms double precision
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
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  target record;
  picked record;
  -- The claimed deliveries; the deliveries of a repeated claim come first.
  ids text[] := '{}';
  endpoints text[] := '{}';
  events text[] := '{}';
  repeated integer := 0;
  -- The sizes of the bodies; null for a delivery without an event.
  sizes bigint[] := '{}';
  cut integer;
  cut_endpoint text;
  unread json := '[]';
  first_prefix text;
  last_id text;
begin
  perform business_api.hold_shard($1);
  if exists (
    select 1 from business_api.open_deliveries d
     where d.organization_id = $1 and d.is_backing_off and d.due_at <= at_time
  ) then
    perform business_api.promote_retries_of($1, at_time);
  end if;

  if is_repeat then
    select coalesce(array_agg(d.id order by d.id), '{}'), coalesce(array_agg(d.endpoint_id order by d.id), '{}'),
           coalesce(array_agg(d.event_id order by d.id), '{}')
      into ids, endpoints, events
      from business_api.open_deliveries d
     where d.organization_id = $1 and d.lease_until > at_time and d.claim_token = $2;
    repeated := cardinality(ids);
  end if;

  for target in
    select t.value ->> 'endpointId' as endpoint_id, (t.value ->> 'budget')::integer as budget,
           (t.value ->> 'isBackfill')::boolean as is_backfill
      from jsonb_array_elements($4) with ordinality as t (value, place)
     order by t.place
  loop
    select * into picked from business_api.pick_deliveries(
      -- A claim that is sent again has some of the deliveries already.
      $1, target.endpoint_id, target.is_backfill, is_rest,
      target.budget - coalesce(cardinality(array_positions(endpoints[:repeated], target.endpoint_id)), 0)
    );
    if cardinality(picked.ids) > 0 then
      ids := ids || picked.ids;
      events := events || picked.events;
      endpoints := endpoints || array_fill(target.endpoint_id, array[cardinality(picked.ids)]);
    end if;
  end loop;

  if byte_limit <= 0 then
    -- Neither bodies nor sizes of bodies are read, because an unreadable row must not hold up a claim.
    sizes := array_fill(1::bigint, array[cardinality(ids)]);
  elsif cardinality(ids) > 0 then
    select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
      from unnest(ids) as claim (id);
    sizes := array_fill(null::bigint, array[cardinality(ids)]);
    for target in
      select claim.place, event.bytes
        from unnest(events, ids) with ordinality as claim (event_id, id, place)
        cross join lateral (
          select octet_length(e.body) as bytes from business_api.events e
           where e.organization_id = $1 and e.id = claim.event_id
             and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
             and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
           order by e.delivery_prefix limit 1
        ) as event
    loop
      sizes[target.place::integer] := target.bytes;
    end loop;
    select fit.cut into cut from business_api.fit_bodies(sizes, byte_limit, byte_budget) as fit;
    if cut is not null then
      -- Deliveries of a repeated claim that do not fit into the answer become due again.
      update business_api.open_deliveries d
         set attempts = d.attempts - 1, claim_token = null, claimed_at = null, lease_until = null
       where d.organization_id = $1 and d.id = any (ids[cut:repeated]) and d.claim_token = $2;
      repeated := least(repeated, cut - 1);
      cut_endpoint := endpoints[cut];
      ids := ids[:cut - 1];
      endpoints := endpoints[:cut - 1];
    end if;
  end if;

  if cardinality(ids) > repeated then
    update business_api.open_deliveries d
       set attempts = d.attempts + 1, claim_token = $2, claimed_at = at_time,
           lease_until = at_time + $8 * interval '1 millisecond'
     where d.organization_id = $1 and d.id = any (ids[repeated + 1:]);
  end if;
  select coalesce(json_agg(json_build_object(
           'organizationId', $1, 'id', claim.id, 'endpointId', claim.endpoint_id
         ) order by claim.place) filter (where sizes[claim.place::integer] > byte_limit), '[]'),
         coalesce(array_agg(claim.id order by claim.place) filter (where sizes[claim.place::integer] <= byte_limit), '{}')
    into unread, ids
    from unnest(ids, endpoints) with ordinality as claim (id, endpoint_id, place);
  return json_build_object(
    'deliveries', business_api.read_deliveries_of($1, ids), 'unread', unread, 'cutEndpoint', cut_endpoint
  )::text;
end
$$;

-- Reads the content of deliveries of an organization, as read_deliveries does.
create function business_api.read_deliveries_of(organization_id text, ids text[]) returns json
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  first_prefix text;
  last_id text;
begin
  if cardinality(ids) = 0 then
    return '[]';
  end if;
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
      from unnest($2) with ordinality as claim (id, place)
      cross join lateral (
        select o.endpoint_id, o.event_id, o.attempts, o.attempts_before from business_api.open_deliveries o
         where o.organization_id = $1 and o.id = claim.id
         limit 1
      ) as d
      cross join lateral (
        select e.type, e.body, e.traceparent from business_api.events e
         where e.organization_id = $1 and e.id = d.event_id
           and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
           and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
         order by e.delivery_prefix limit 1
      ) as event
      cross join lateral (
        select w.url, w.header_names, w.sealed_headers, w.standard_webhooks, w.sealed_secret, w.previous_sealed_secret,
               w.previous_secret_expires_at
          from business_api.webhook_endpoints w
         where w.organization_id = $1 and w.id = d.endpoint_id and w.state <> 'removed'
         limit 1
      ) as endpoint
     cross join lateral (
       select json_build_object(
                'organizationId', $1, 'id', claim.id, 'endpointId', d.endpoint_id, 'eventId', d.event_id,
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

-- Reads the content of deliveries of an organization whose claims are in force, as read_claims does.
create function business_api.read_claims_of(organization_id text, claims jsonb) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  ids text[];
begin
  select coalesce(array_agg(found.id order by claim.place), '{}') into ids
    from jsonb_array_elements($2) with ordinality as claim (ref, place)
    cross join lateral (
      select d.id from business_api.open_deliveries d
       where d.organization_id = $1 and d.id = claim.ref ->> 'deliveryId' and d.claim_token = claim.ref ->> 'token'
       limit 1
    ) as found;
  return business_api.read_deliveries_of($1, ids)::text;
end
$$;

-- Gives claims of an organization back.
create function business_api.release_claims_of(organization_id text, claims jsonb) returns bigint
language plpgsql volatile
set search_path = ''
as $$
begin
  return business_api.release_deliveries($2);
end
$$;

-- Gives the deliveries back that a claim holds whose answer was lost. `kept` is a JSON array of deliveries that another answer to the claim
-- has brought.
create function business_api.release_claim_of(organization_id text, token text, kept jsonb) returns bigint
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  claims jsonb;
begin
  select jsonb_agg(jsonb_build_object('organizationId', $1, 'deliveryId', d.id, 'token', $2)) into claims
    from business_api.open_deliveries d
   where d.organization_id = $1 and d.lease_until > clock_timestamp() and d.claim_token = $2 and not $3 ? d.id;
  return business_api.release_deliveries(coalesce(claims, '[]'));
end
$$;

-- Writes the results of attempts of an organization, as write_attempt_results does.
create function business_api.write_results_of(
  organization_id text, results jsonb, failure_limit integer, failing_ms double precision
) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  retried record;
  closed record;
  due_again jsonb;
  gone jsonb;
  -- The results whose claim was in force, each with the columns of the delivery.
  ended jsonb;
  outcomes jsonb[];
  dead_letters jsonb;
begin
  select array_agg(r."deliveryId") as ids, array_agg(r.token) as tokens, array_agg(r."delayMs" > 0) as are_backing_off,
         array_agg(at_time + (r."delayMs" - r."endedAgoMs") * interval '1 millisecond') as due_ats
    into retried
    from jsonb_to_recordset($2) as r (
      "deliveryId" text, token text, outcome text, "delayMs" double precision, "endedAgoMs" double precision
    )
   where r.outcome = 'retry';
  select array_agg(r."deliveryId") as ids, array_agg(r.token) as tokens into closed
    from jsonb_to_recordset($2) as r ("deliveryId" text, token text, outcome text)
   where r.outcome <> 'retry';

  if retried.ids is not null then
    with changed as (
      update business_api.open_deliveries d
         set due_at = r.due_at, is_backing_off = r.is_backing_off, claim_token = null, claimed_at = null, lease_until = null
        from unnest(retried.ids, retried.tokens, retried.due_ats, retried.are_backing_off) as r (id, token, due_at, is_backing_off)
       where d.organization_id = $1 and d.id = r.id and d.claim_token = r.token
      returning r.token || ' ' || d.id as claim, d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill
    )
    select jsonb_object_agg(c.claim, to_jsonb(c)) into due_again from changed c;
  end if;
  if closed.ids is not null then
    with removed as (
      delete from business_api.open_deliveries d
       using unnest(closed.ids, closed.tokens) as r (id, token)
       where d.organization_id = $1 and d.id = r.id and d.claim_token = r.token
      returning r.token || ' ' || d.id as claim, d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill
    )
    select jsonb_object_agg(r.claim, to_jsonb(r)) into gone from removed r;
  end if;
  due_again := coalesce(due_again, '{}') || coalesce(gone, '{}');
  select coalesce(jsonb_agg(r.value || (due_again -> (r.value ->> 'token' || ' ' || (r.value ->> 'deliveryId')))), '[]') into ended
    from jsonb_array_elements($2) as r
   where due_again ? (r.value ->> 'token' || ' ' || (r.value ->> 'deliveryId'));

  if gone is not null then
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
    select $1, c."deliveryId", c.event_id, c.type, c.endpoint_id, c.outcome, c.reason, c.created_at,
           at_time - c."endedAgoMs" * interval '1 millisecond', c.attempts, c.is_backfill
      from jsonb_to_recordset(ended) as c (
        "deliveryId" text, event_id text, type text, endpoint_id text, outcome text, reason text, created_at timestamptz,
        "endedAgoMs" double precision, attempts integer, is_backfill boolean
      )
     where c.outcome <> 'retry';
  end if;
  if ended <> '[]' then
    insert into business_api.delivery_attempts (
      organization_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, first_byte_ms,
      status, error, body_excerpt
    )
    select $1, e."deliveryId", e.attempts, at_time - e."startedAgoMs" * interval '1 millisecond',
           e."durationMs", e."dnsMs", e."connectMs", e."tlsMs", e."firstByteMs", e.status, e.error, e."bodyExcerpt"
      from jsonb_to_recordset(ended) as e (
        "deliveryId" text, attempts integer, "startedAgoMs" double precision, "durationMs" real, "dnsMs" real, "connectMs" real,
        "tlsMs" real, "firstByteMs" real, status integer, error text, "bodyExcerpt" text
      );
  end if;

  -- For an endpoint's health only the failures after the last success among these results count. An attempt that the process
  -- interrupted or never made proves nothing about the endpoint.
  outcomes := array(
    select jsonb_build_object(
             'organization_id', $1, 'endpoint_id', e.endpoint_id,
             'has_success', bool_or(e.outcome = 'delivered'), 'has_failure', bool_or(e.is_failure), 'is_gone', bool_or(e."isGone"),
             'failures', count(*) filter (where e.is_failure and e."endedAgoMs" < coalesce(e.success_ago_ms, 'infinity')),
             'first_failure_ago_ms',
               max(e."endedAgoMs") filter (where e.is_failure and e."endedAgoMs" < coalesce(e.success_ago_ms, 'infinity')),
             'failed_attempt', max(e.token || ' ' || e."deliveryId") filter (where e.is_failure)
           )
      from (
        select x.*, x.outcome <> 'delivered' and coalesce(x.error, '') not in ('interrupted', 'unreadable') as is_failure,
               min(x."endedAgoMs") filter (where x.outcome = 'delivered') over (partition by x.endpoint_id) as success_ago_ms
          from jsonb_to_recordset(ended) as x (
            endpoint_id text, "deliveryId" text, token text, outcome text, error text, "isGone" boolean,
            "endedAgoMs" double precision
          )
      ) as e
     group by e.endpoint_id
  );
  select coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', $1, 'endpointId', e.endpoint_id, 'deliveryId', e."deliveryId", 'eventId', e.event_id,
           'type', e.type, 'reason', e.reason
         )), '[]')
    into dead_letters
    from jsonb_to_recordset(ended) as e (
      endpoint_id text, "deliveryId" text, event_id text, type text, outcome text, reason text
    )
   where e.outcome = 'dead_lettered';
  return business_api.report_results(
    $2, array(select jsonb_object_keys(due_again)), outcomes, dead_letters, at_time, failure_limit, failing_ms
  );
end
$$;

-- Claims the notices of secrets of an organization about to expire: see NoticeStore.claimExpiring in lib/webhooks/notices.ts. `ids` is
-- a JSON array of endpoints. Returns the notices as JSON.
create function business_api.notice_secrets_of(
  organization_id text, token text, within_ms double precision, ids jsonb
) returns text
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  notices jsonb := '[]';
  endpoint record;
begin
  for endpoint in
    select e.id, e.previous_secret_expires_at as expires_at from business_api.webhook_endpoints e
     where e.organization_id = $1 and e.id = any (array(select jsonb_array_elements_text($4)))
       and e.previous_secret_expires_at > now()
       and e.previous_secret_expires_at <= now() + $3 * interval '1 millisecond'
       and e.state <> 'removed'
       and (
         e.secret_expiry_noticed is distinct from e.previous_secret_expires_at or e.secret_expiry_noticed_by = $2
       )
       for no key update skip locked
  loop
    update business_api.webhook_endpoints e
       set secret_expiry_noticed = endpoint.expires_at, secret_expiry_noticed_by = $2
     where e.organization_id = $1 and e.id = endpoint.id;
    notices := notices || jsonb_build_object(
      'kind', 'secret_expiring', 'organizationId', $1, 'endpointId', endpoint.id,
      'expiresAt', to_char(endpoint.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    );
  end loop;
  return notices::text;
end
$$;

-- Claims the notices of API keys about to expire, of all organizations. Returns the notices as JSON.
create function business_api.notice_keys(token text, within_ms double precision, key_limit integer) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  notices jsonb := '[]';
  expiring record;
begin
  for expiring in
    select k.organization_id, k.id, k.name, k.expires_at from business_api.api_keys k
     where k.expires_at > now()
       and k.expires_at <= now() + $2 * interval '1 millisecond'
       and k.revoked_at is null and k.successor_id is null
       and (k.expiry_noticed is distinct from k.expires_at or k.expiry_noticed_by = $1)
     order by k.expiry_noticed_by is distinct from $1, k.expires_at
     limit $3
       for no key update skip locked
  loop
    update business_api.api_keys k set expiry_noticed = expiring.expires_at, expiry_noticed_by = $1
     where k.organization_id = expiring.organization_id and k.id = expiring.id;
    notices := notices || jsonb_build_object(
      'kind', 'api_key_expiring', 'organizationId', expiring.organization_id, 'keyId', expiring.id, 'name', expiring.name,
      'expiresAt', to_char(expiring.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    );
  end loop;
  return notices::text;
end
$$;

-- --- Retention ---

-- Does one part of a purge: events and idempotency keys, and removed endpoints once no old event is left. `walk` is the place
-- after the previous parts. Returns, as JSON, the counts, the `walk` of the next part, and isDone: true after the last part.
create or replace function business_api.purge_part(
  retention_ms double precision, walk jsonb, part_limit integer, has_endpoints boolean, entry jsonb
) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
declare
  is_distributed boolean := business_api.is_distributed();
  old_before timestamptz := now() - retention_ms * interval '1 millisecond';
  events jsonb := case
    when is_distributed then business_api.purge_events_on_nodes(old_before, walk -> 'event', part_limit, entry)
    else business_api.purge_events(old_before, walk -> 'event', part_limit, entry)
  end;
  expired_from timestamptz := coalesce((walk ->> 'expiry')::timestamptz, '-infinity');
  keys record;
  endpoint jsonb;
  is_done boolean := (events ->> 'isDone')::boolean;
begin
  if is_distributed then
    select k.purged, k.latest into keys from business_api.purge_keys_on_nodes(expired_from, part_limit) as k;
  else
    select k.purged, k.latest into keys from business_api.purge_idempotency_keys(expired_from, part_limit) as k;
  end if;
  if is_done and has_endpoints then
    endpoint := case
      when is_distributed then business_api.purge_endpoints_on_nodes(walk -> 'endpoint', greatest(part_limit, 1000))
      else business_api.purge_removed_endpoints(walk -> 'endpoint', greatest(part_limit, 1000))
    end;
  end if;
  return jsonb_build_object(
    'events', events -> 'events',
    'idempotencyKeys', keys.purged,
    'walk', jsonb_build_object('event', events -> 'place', 'expiry', keys.latest, 'endpoint', endpoint),
    'isDone', is_done and keys.purged < part_limit and endpoint is null
  );
end
$$;

-- Purges old events of all organizations, as purge_events does: a look at all shards without locks, and then the events of each
-- organization, fifty events at a time. A part ends after two seconds, because each organization takes some steps between the nodes.
create function business_api.purge_events_on_nodes(
  old_before timestamptz, place jsonb, event_limit integer, entry jsonb
) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
declare
  begun_at timestamptz := clock_timestamp();
  here_time timestamptz := coalesce((place ->> 'createdAt')::timestamptz, '-infinity');
  here_organization text := coalesce(place ->> 'organizationId', '');
  here_id text := coalesce(place ->> 'id', '');
  is_done boolean := false;
  candidates jsonb;
  own record;
  purged jsonb;
  events_left integer := event_limit;
  deliveries_left bigint := event_limit * 10;
begin
  loop
    select coalesce(jsonb_agg(c order by c.created_at, c.organization_id, c.id), '[]') into candidates
      from (
        select e.organization_id, e.id, e.created_at, e.delivery_prefix from business_api.events e
         where e.created_at < old_before
           and (e.created_at, e.organization_id, e.id) > (here_time, here_organization, here_id)
         order by e.created_at, e.organization_id, e.id
         limit least(50, events_left)
      ) as c;
    is_done := jsonb_array_length(candidates) < least(50, events_left);
    for own in
      select c.organization_id, array_agg(c.id order by c.id) as ids, array_agg(c.delivery_prefix order by c.id) as prefixes
        from jsonb_to_recordset(candidates) as c (organization_id text, id text, delivery_prefix text)
       group by c.organization_id
    loop
      purged := business_api.purge_events_of(own.organization_id, own.ids, own.prefixes);
      events_left := events_left - (purged ->> 'events')::integer;
      deliveries_left := deliveries_left - (purged ->> 'deliveries')::integer;
      if entry is not null and purged -> 'events' <> '0' then
        insert into business_api.audit_entries as audit
          (organization_id, id, changed_at, actor, action, subject_id, details)
        values (
          own.organization_id, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', own.organization_id,
          (entry -> 'details') || jsonb_build_object('events', purged -> 'events')
        )
        on conflict (organization_id, id) do update set
          details = audit.details || (
            '{"events": ' || ((audit.details ->> 'events')::bigint + (excluded.details ->> 'events')::bigint)::text || '}'
          )::jsonb;
      end if;
    end loop;
    if candidates <> '[]' then
      here_time := (candidates -> -1 ->> 'created_at')::timestamptz;
      here_organization := candidates -> -1 ->> 'organization_id';
      here_id := candidates -> -1 ->> 'id';
    end if;
    exit when is_done or events_left <= 0 or deliveries_left <= 0 or clock_timestamp() > begun_at + interval '2 seconds';
  end loop;
  if not is_done then
    is_done := not exists (
      select 1 from business_api.events e
       where e.created_at < old_before
         and (e.created_at, e.organization_id, e.id) > (here_time, here_organization, here_id)
    );
  end if;
  return jsonb_build_object(
    'events', event_limit - events_left,
    'place', jsonb_build_object('createdAt', here_time, 'organizationId', here_organization, 'id', here_id),
    'isDone', is_done
  );
end
$$;

-- Purges events of an organization with deliveries and attempts. Events with an open delivery stay, and events of which another
-- transaction holds a row. Returns, as JSON, the numbers of purged events and deliveries.
create function business_api.purge_events_of(organization_id text, event_ids text[], prefixes text[]) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  event record;
  total bigint;
  delivery_ids text[];
  events integer := 0;
  deliveries integer := 0;
begin
  for event in select * from unnest($2, $3) as e (id, delivery_prefix) loop
    perform 1 from business_api.events e
      where e.organization_id = $1 and e.id = event.id and e.delivery_prefix = event.delivery_prefix
        for update skip locked;
    continue when not found;
    continue when exists (
      select 1 from business_api.open_deliveries d
       where d.organization_id = $1 and d.id >= event.delivery_prefix and d.id < event.delivery_prefix || '~'
         and d.event_id = event.id
    );
    select count(*) into total from business_api.finished_deliveries d
     where d.organization_id = $1 and d.id >= event.delivery_prefix and d.id < event.delivery_prefix || '~'
       and d.event_id = event.id;
    select coalesce(array_agg(f.id), '{}') into delivery_ids
      from (
        select d.id from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= event.delivery_prefix and d.id < event.delivery_prefix || '~'
           and d.event_id = event.id
           for update skip locked
      ) as f;
    continue when cardinality(delivery_ids) < total;
    if total > 0 then
      delete from business_api.delivery_attempts a
       where a.organization_id = $1 and a.delivery_id = any (delivery_ids)
         and a.delivery_id >= event.delivery_prefix and a.delivery_id < event.delivery_prefix || '~';
      delete from business_api.finished_deliveries d
       where d.organization_id = $1 and d.id = any (delivery_ids)
         and d.id >= event.delivery_prefix and d.id < event.delivery_prefix || '~';
    end if;
    delete from business_api.event_ids i
     where i.organization_id = $1 and i.id = event.id and i.delivery_prefix = event.delivery_prefix;
    delete from business_api.events e
     where e.organization_id = $1 and e.id = event.id and e.delivery_prefix = event.delivery_prefix;
    events := events + 1;
    deliveries := deliveries + total::integer;
  end loop;
  return jsonb_build_object('events', events, 'deliveries', deliveries);
end
$$;

-- Purges expired idempotency keys of all organizations, as purge_idempotency_keys does.
create function business_api.purge_keys_on_nodes(
  expired_from timestamptz, key_limit integer, out purged integer, out latest timestamptz
)
language plpgsql volatile
set search_path = ''
as $$
declare
  at_time timestamptz := now();
  own record;
  gone integer;
begin
  purged := 0;
  latest := expired_from;
  for own in
    select f.organization_id, array_agg(f.operation) as operations, array_agg(f.key) as keys, max(f.expires_at) as latest_own
      from (
        select k.organization_id, k.operation, k.key, k.expires_at from business_api.idempotency_keys k
         where k.expires_at <= at_time and k.expires_at >= expired_from
         order by k.expires_at
         limit key_limit
      ) as f
     group by f.organization_id
  loop
    delete from business_api.idempotency_keys k
     using unnest(own.operations, own.keys) as expired (operation, key)
     where k.organization_id = own.organization_id and k.operation = expired.operation and k.key = expired.key
       and k.expires_at <= at_time;
    get diagnostics gone = row_count;
    purged := purged + gone;
    latest := greatest(latest, own.latest_own);
  end loop;
end
$$;

-- Deletes the rows of removed endpoints without deliveries, from a place on, as purge_removed_endpoints does, for two seconds at most.
create function business_api.purge_endpoints_on_nodes(place jsonb, endpoint_limit integer) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
declare
  begun_at timestamptz := clock_timestamp();
  removed record;
  inspections integer := 0;
  next_place jsonb;
begin
  for removed in
    select e.organization_id, e.id from business_api.webhook_endpoints e
     where e.state = 'removed'
       and (e.organization_id, e.id) > (coalesce(place ->> 'organizationId', ''), coalesce(place ->> 'id', ''))
     order by e.organization_id, e.id
     limit endpoint_limit
  loop
    inspections := inspections + 1;
    next_place := jsonb_build_object('organizationId', removed.organization_id, 'id', removed.id);
    if not exists (
      select 1 from business_api.open_deliveries d
       where d.organization_id = removed.organization_id and d.endpoint_id = removed.id
    ) and not exists (
      select 1 from business_api.finished_deliveries d
       where d.organization_id = removed.organization_id and d.endpoint_id = removed.id
         and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
    ) then
      delete from business_api.webhook_endpoints e
       where e.organization_id = removed.organization_id and e.id = removed.id and e.state = 'removed';
    end if;
    if clock_timestamp() > begun_at + interval '2 seconds' then
      return next_place;
    end if;
  end loop;
  return case when inspections = endpoint_limit then next_place end;
end
$$;

-- Finds an open delivery of this node in a range of ids, as find_open_delivery does; the text `null` if nothing is open.
create function business_api.find_open_delivery_of_node(begins text, ends text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  source record;
  here_organization text;
  here_id text;
  found_delivery record;
begin
  for source in select t.deliveries from business_api.tables_of_node() as t loop
    here_organization := '';
    here_id := '';
    for step in 1 .. 10000 loop
      execute format(
        'select d.organization_id, d.id, d.endpoint_id, d.created_at from %s d
          where (d.organization_id, d.id) >= ($1, $2) order by d.organization_id, d.id limit 1',
        source.deliveries
      ) into found_delivery using here_organization, here_id;
      exit when found_delivery.id is null;
      here_organization := found_delivery.organization_id;
      if found_delivery.id collate "C" < begins then
        here_id := begins;
      elsif found_delivery.id collate "C" < ends then
        return jsonb_build_object(
          'organizationId', found_delivery.organization_id, 'endpointId', found_delivery.endpoint_id,
          'since', to_char(found_delivery.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        )::text;
      else
        here_id := '~';
      end if;
      if step = 10000 then
        return '{}';
      end if;
    end loop;
  end loop;
  return 'null';
end
$$;

-- Finds an open delivery of any node in a range of ids. Returns null if no node has one, and an empty object if a node did not answer.
create function business_api.find_open_delivery_on_nodes(begins text, ends text) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  node record;
  holder jsonb;
begin
  for node in
    execute 'select success, result from pg_catalog.run_command_on_all_nodes($1, give_warning_for_connection_errors => true)'
      using format('select business_api.find_open_delivery_of_node(%L, %L)', begins, ends)
  loop
    if not node.success then
      holder := coalesce(holder, '{}');
    elsif node.result <> 'null' then
      return node.result::jsonb;
    end if;
  end loop;
  return holder;
end
$$;

-- Makes days ahead, drops one day, or deletes ids of a dropped day, as purge_days does: with the privileges of the schema's owner, who
-- therefore connects to the nodes. The locks on the day's tables keep publishers and redeliveries out on all nodes while the nodes are
-- asked for the second time.
create function business_api.purge_days_on_nodes(retention_ms double precision, part_limit integer) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set lock_timeout = '50ms'
as $$
declare
  at_time timestamptz := clock_timestamp();
  day business_api.event_days;
  holder jsonb;
  tables text;
  last_prefix text;
begin
  if business_api.days_end(at_time) < at_time + interval '144 hours' then
    begin
      perform business_api.make_days();
    exception
      when lock_not_available or deadlock_detected then null;
    end;
  end if;

  select d.* into day from business_api.event_days d
   where d.organization_id = '' and d.dropped_at is null
     and d.ends_at <= at_time - greatest(retention_ms, 86400000) * interval '1 millisecond'
     and coalesce(d.looked_at not between at_time - interval '10 minutes' and at_time, true)
   order by d.begins
   limit 1;
  if found then
    holder := business_api.find_open_delivery_on_nodes(day.begins, day.ends);
    if holder is null then
      begin
        tables := business_api.tables_of_day(day.name);
        if tables is not null then
          execute format('lock table %s in share mode', tables);
        end if;
        holder := business_api.find_open_delivery_on_nodes(day.begins, day.ends);
        if holder is null then
          if tables is not null then
            execute 'drop table ' || tables;
          end if;
          update business_api.event_days d set dropped_at = at_time, kept_by = null
           where d.organization_id = '' and d.begins = day.begins;
          return jsonb_build_object('days', 1, 'kept', business_api.kept_deliveries());
        end if;
        -- Gives up the locks.
        raise exception 'the day is kept';
      exception
        when lock_not_available or deadlock_detected then
          at_time := at_time - interval '9 minutes';
        when raise_exception then
          -- A trigger of the host's may raise this error too.
          if holder is null then
            raise;
          end if;
      end;
    end if;
    update business_api.event_days d
       set looked_at = at_time, kept_by = case when holder = '{}' then d.kept_by else holder end
     where d.organization_id = '' and d.begins = day.begins;
  end if;

  select d.* into day from business_api.event_days d
   where d.organization_id = '' and d.dropped_at is not null
   order by d.begins
   limit 1;
  if found then
    select i.delivery_prefix into last_prefix from business_api.event_ids i
     where i.delivery_prefix >= day.begins and i.delivery_prefix < day.ends
     order by i.delivery_prefix
     offset part_limit limit 1;
    delete from business_api.event_ids i
     where i.delivery_prefix >= day.begins and i.delivery_prefix < coalesce(last_prefix, day.ends);
    if last_prefix is null then
      delete from business_api.event_days d where d.organization_id = '' and d.begins = day.begins;
    end if;
  end if;
  return jsonb_build_object('days', 0, 'kept', business_api.kept_deliveries());
end
$$;

-- Does the next part of the shared purge on a distributed database, as continue_purge does. The number of events of a dropped day is
-- not estimated.
create function business_api.continue_purge_on_nodes(retention_ms double precision, part_limit integer, share double precision)
returns jsonb
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_variable
declare
  begun_at timestamptz := clock_timestamp();
  progress business_api.purge_progress;
  old_ms double precision := retention_ms + business_api.day_grace_ms(retention_ms);
  day jsonb := '{}';
  part jsonb;
  second jsonb;
  is_done boolean := false;
  rests_until timestamptz;
begin
  select p.* into progress from business_api.purge_progress p where p.organization_id = '' for update;
  if progress.rests_until > begun_at and progress.rests_until < begun_at + interval '5 minutes' then
    return jsonb_build_object(
      'events', 0, 'days', 0, 'idempotencyKeys', 0, 'isDone', false,
      'waitMs', extract(epoch from progress.rests_until - begun_at) * 1000, 'lagMs', null, 'kept', json_build_array()
    );
  end if;

  day := business_api.purge_days_on_nodes(retention_ms, part_limit);
  if day -> 'days' = '0' then
    -- A clock that was ahead must not leave the walk beyond events that become old later.
    if (progress.walk -> 'event' ->> 'createdAt')::timestamptz > begun_at - old_ms * interval '1 millisecond' then
      progress.walk := '{}';
    end if;
    part := business_api.purge_part(old_ms, coalesce(progress.walk, '{}'), part_limit, false, null);
    progress.walk := part -> 'walk';
    is_done := (part ->> 'isDone')::boolean;
    if is_done and progress.revisit is null
      and coalesce(progress.revisited_at not between begun_at - interval '1 hour' and begun_at, true)
    then
      progress.revisit := '{}';
      progress.revisited_at := begun_at;
    end if;
    if is_done and progress.revisit is not null then
      second := business_api.purge_part(old_ms, progress.revisit, part_limit, true, null);
      is_done := (second ->> 'isDone')::boolean;
      progress.revisit := case when not is_done then second -> 'walk' end;
    end if;
  end if;

  rests_until := case
    when is_done then '-infinity'
    else clock_timestamp() + (clock_timestamp() - begun_at) * (1 / share - 1)
  end;
  progress.purged_at := clock_timestamp();
  update business_api.purge_progress p
     set retention_ms = retention_ms, walk = progress.walk, revisit = progress.revisit, revisited_at = progress.revisited_at,
         purged_at = progress.purged_at, rests_until = rests_until
   where p.organization_id = '';
  return jsonb_build_object(
    'events', coalesce((part ->> 'events')::bigint, 0) + coalesce((second ->> 'events')::bigint, 0),
    'days', day -> 'days',
    'idempotencyKeys', coalesce((part ->> 'idempotencyKeys')::bigint, 0) + coalesce((second ->> 'idempotencyKeys')::bigint, 0),
    'isDone', is_done,
    'waitMs', extract(epoch from clock_timestamp() - begun_at) * 1000 * (1 / share - 1),
    'lagMs', business_api.purge_lag(retention_ms, progress.walk),
    'kept', coalesce(day -> 'kept', '[]')
  );
end
$$;

revoke execute on function business_api.purge_days_on_nodes(double precision, integer) from public;
