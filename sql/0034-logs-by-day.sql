-- The logs with days: an event is found by its id in the day that the id or event_ids tells, and a page of the log is planned
-- once in a session. 0016-due-deliveries.sql says why each function limits the planner.
-- Locks: none.

-- Finds events by their ids, in no certain order. An id of the library begins with the time of publishing, and event_ids has the days
-- of other ids; only an id that neither leads to an event is looked for in every day: an id of the host's own from before the days,
-- or an unknown one. Each statement is planned for the bounds at hand, because plans for all days take ten times as long to make as to
-- run.
create function business_api.find_events(organization_id text, ids text[]) returns setof business_api.events
language plpgsql stable rows 8
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  missing text[] := array(select distinct wanted.id from unnest($2) as wanted (id));
  sought text[];
  first_prefix text;
  last_prefix text;
  event business_api.events;
begin
  for step in 1 .. 3 loop
    exit when cardinality(missing) = 0;
    if step = 1 then
      select array_agg(m.id), min(m.id collate "C"), max(m.id collate "C") into sought, first_prefix, last_prefix
        from unnest(missing) as m (id) where m.id ~ '^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$';
      -- The clock of a process may differ, and the statement may have been sent again.
      first_prefix := business_api.day_bound(business_api.id_time(first_prefix) - interval '5 minutes');
      last_prefix := business_api.day_bound(business_api.id_time(last_prefix) + interval '5 minutes');
    elsif step = 2 then
      select array_agg(known.id), min(known.delivery_prefix collate "C"), max(known.delivery_prefix collate "C")
        into sought, first_prefix, last_prefix
        from unnest(missing) as m (id)
        cross join lateral (
          select i.id, i.delivery_prefix from business_api.event_ids i
           where i.organization_id = $1 and i.id = m.id
           limit 1
        ) as known;
    else
      sought := missing;
      first_prefix := '';
      last_prefix := '~';
    end if;
    continue when sought is null;
    for event in
      select found.*
        from unnest(sought) as wanted (id)
        cross join lateral (
          select e.* from business_api.events e
           where e.organization_id = $1 and e.id = wanted.id
             and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_prefix
           order by e.delivery_prefix limit 1
        ) as found
    loop
      missing := array_remove(missing, event.id);
      return next event;
    end loop;
  end loop;
end
$$;

-- Lists the deliveries of events, open and finished: a range of both primary keys for each event, in the days of the events.
create function business_api.deliveries_of_events(organization_id text, event_ids text[], delivery_prefixes text[])
returns table (event_id text, id text, type text, endpoint_id text, state text, created_at timestamptz)
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  first_id text;
  end_id text;
begin
  select min(event.prefix collate "C"), max(event.prefix collate "C") || '~' into first_id, end_id
    from unnest($3) as event (prefix);
  return query
    select event.id, delivery.*
      from unnest($2, $3) as event (id, prefix)
      cross join lateral (
        select d.id, d.type, d.endpoint_id, case when d.claim_token is null then 'pending' else 'in_flight' end, d.created_at
          from business_api.open_deliveries d
         where d.organization_id = $1 and d.id >= event.prefix and d.id < event.prefix || '~' and d.event_id = event.id
        union all
        select d.id, d.type, d.endpoint_id, d.state, d.created_at
          from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= event.prefix and d.id < event.prefix || '~' and d.event_id = event.id
           and d.id >= first_id and d.id < end_id
      ) as delivery;
end
$$;

-- Lists the newest events of an organization as JSON: see EventLogStore.list in lib/webhooks/event-log.ts. `type`, `since`, `until` and
-- `before_id` may be null. At most inspected_limit events are read, one by one until the page is full. All days are read as one, because
-- a host's clock decides created_at, and so the place of an event in the log: an event of any day may be the next. Each day costs a
-- descent of its index; to plan for all days takes longer, and happens once in a session. The comparisons of rows leave the planner
-- events_log_idx.
create function business_api.list_events(
  organization_id text,
  type text,
  since timestamptz,
  until timestamptz,
  before_id text,
  page_limit integer,
  inspected_limit integer
) returns text
language plpgsql stable
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
  -- Events before this place.
  end_at timestamptz := coalesce($4, 'infinity');
  end_id text := '';
  before_at timestamptz;
  inspected integer := 0;
  event record;
  next_id text;
  ids text[] := '{}';
  types text[] := '{}';
  times timestamptz[] := '{}';
  only_endpoint_ids text[] := '{}';
  delivery_prefixes text[] := '{}';
begin
  if $5 is not null then
    select e.created_at into before_at from business_api.find_events($1, array[$5]) as e;
    if not found then
      return '{"events":[],"next":null}';
    end if;
    if before_at < end_at then
      end_at := before_at;
      end_id := $5;
    end if;
  end if;

  for event in
    select e.id, e.type, e.created_at, e.only_endpoint_id, e.delivery_prefix from business_api.events e
     where e.organization_id = $1 and e.created_at >= coalesce($3, '-infinity')
       and (e.organization_id, e.created_at, e.id) < ($1, end_at, end_id)
     order by e.created_at desc, e.id desc
     limit $7
  loop
    inspected := inspected + 1;
    if $2 is null or event.type = $2 then
      if cardinality(ids) = $6 then
        next_id := ids[$6];
        exit;
      end if;
      ids := ids || event.id;
      types := types || event.type;
      times := times || event.created_at;
      only_endpoint_ids := only_endpoint_ids || event.only_endpoint_id;
      delivery_prefixes := delivery_prefixes || event.delivery_prefix;
    end if;
  end loop;
  if next_id is null and inspected = $7 then
    next_id := event.id;
  end if;

  return (
    with counted as materialized (
      select states.event_id, json_object_agg(states.state, states.deliveries) as deliveries
        from (
          select d.event_id, d.state, count(*) as deliveries
            from business_api.deliveries_of_events($1, ids, delivery_prefixes) as d
           group by d.event_id, d.state
        ) as states
       group by states.event_id
    )
    select json_build_object('events', coalesce(json_agg(json_build_object(
             'id', listed.id, 'type', listed.type,
             'createdAt', to_char(listed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
             'onlyEndpointId', listed.only_endpoint_id, 'deliveries', coalesce(counted.deliveries, '{}')
           ) order by listed.place), '[]'), 'next', next_id)::text
      from unnest(ids, types, times, only_endpoint_ids) with ordinality
             as listed (id, type, created_at, only_endpoint_id, place)
      left join counted on counted.event_id = listed.id
  );
end
$$;

-- Lists the events of an organization from a moment on as JSON: see EventLogStore.listSince in lib/webhooks/event-log.ts. `after_at` and
-- `after_id` may be null. All days are read as one: see list_events.
create function business_api.list_events_since(
  organization_id text, since timestamptz, row_limit integer, after_at timestamptz, after_id text
) returns text
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
  return (
    select coalesce(json_agg(json_build_object(
             -- Microseconds: a place that was cut to milliseconds would come before events that were read already.
             'at', to_char(event.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
             'id', event.id, 'type', event.type, 'onlyEndpointId', event.only_endpoint_id
           ) order by event.created_at, event.id), '[]')::text
      from (
        select e.id, e.type, e.created_at, e.only_endpoint_id from business_api.events e
         where e.organization_id = $1 and e.created_at >= $2
           and (e.organization_id, e.created_at, e.id) > ($1, coalesce($4, $2), coalesce($5, ''))
         order by e.created_at, e.id
         limit $3
      ) as event
  );
end
$$;

-- Lists the finished deliveries of an organization that a filter selects, day by day and the newest or the oldest first, until a day is
-- complete with row_limit deliveries or more: of each range of an index up to the limit. `endpoint_id`, `type`, `since` and `until` may
-- be null. The ids are at least first_id and below end_id. A statement over all days would take ten times as long to plan as to run;
-- here each statement is planned once in a session, and opens the tables of one day: a parameter for the order would leave the planner
-- no index, so that the two functions are made from one text. Each state and endpoint is a range of an index: the walk goes from
-- endpoint to endpoint, with one descent for each, and the comparisons of rows leave the planner that index. If row level security
-- hides the days, all are read as one.
do $do$
declare
  direction text;
begin
  foreach direction in array array['desc', 'asc'] loop
    execute format($text$
create function business_api.list_%2$s_finished(
  organization_id text,
  endpoint_id text,
  states text[],
  type text,
  since timestamptz,
  until timestamptz,
  first_id text,
  end_id text,
  row_limit integer,
  is_recoverable boolean
) returns setof business_api.finished_deliveries
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $body$
#variable_conflict use_column
declare
  is_whole boolean := $2 is null and $4 is null and cardinality($3) = 4;
  listed integer := 0;
  found_rows integer;
  day record;
begin
  for day in
    select g.begins, g.ends
      from (
        select greatest(d.begins, $7) as begins, least(d.ends, $8) as ends from business_api.event_days d
         where d.organization_id = '' and d.dropped_at is null and d.ends > $7 and d.begins < $8
        union all
        select $7, $8 where not exists (select 1 from business_api.event_days)
      ) as g
     order by g.begins %1$s
  loop
    if is_whole then
      return query
        select d.* from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= day.begins and d.id < day.ends
           and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
           and (not $10 or exists (
             select 1 from business_api.webhook_endpoints e
              where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
           ))
         order by d.id %1$s limit $9 - listed;
    elsif $4 is not null then
      return query
        with recursive walk as (
          select coalesce($2, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.type = $4 and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
          union all
          select (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.type = $4 and d.endpoint_id > walk.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from walk where walk.endpoint_id is not null and $2 is null
        )
        select found.* from walk, lateral (
          select d.* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
             and (d.type, d.endpoint_id, d.id) >= ($4, walk.endpoint_id, day.begins)
             and (d.type, d.endpoint_id, d.id) < ($4, walk.endpoint_id, day.ends)
             and d.state = any ($3) and d.id >= day.begins and d.id < day.ends
             and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
             and (not $10 or exists (
               select 1 from business_api.webhook_endpoints e
                where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
             ))
           order by d.type %1$s, d.endpoint_id %1$s, d.id %1$s limit $9 - listed
        ) as found where walk.endpoint_id is not null;
    else
      return query
        with recursive walk as (
          select wanted.state, coalesce($2, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = wanted.state
               and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled') and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
            from unnest($3) as wanted (state)
          union all
          select walk.state, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = walk.state
               and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.endpoint_id > walk.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from walk where walk.endpoint_id is not null and $2 is null
        )
        select found.* from walk, lateral (
          select d.* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
             and (d.state, d.endpoint_id, d.id) >= (walk.state, walk.endpoint_id, day.begins)
             and (d.state, d.endpoint_id, d.id) < (walk.state, walk.endpoint_id, day.ends)
             and d.id >= day.begins and d.id < day.ends
             and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
             and (not $10 or exists (
               select 1 from business_api.webhook_endpoints e
                where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
             ))
           order by d.state %1$s, d.endpoint_id %1$s, d.id %1$s limit $9 - listed
        ) as found where walk.endpoint_id is not null;
    end if;
    get diagnostics found_rows = row_count;
    listed := listed + found_rows;
    exit when listed >= $9;
  end loop;
end
$body$
    $text$, direction, case when direction = 'desc' then 'newest' else 'oldest' end);
  end loop;
end
$do$;

drop function if exists business_api.list_finished_deliveries(
  text, text, text[], text, timestamptz, timestamptz, text, text, integer, boolean, boolean
);
