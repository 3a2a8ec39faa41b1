-- The delivery log: open deliveries, the deliveries of events, and finished deliveries day by day.

-- A filter for deliveries, passed as JSON. See DeliveryFilter. A null field matches everything.
create type business_api.delivery_filter as (
  "endpointId" text, "eventId" text, "subjectId" text, type text, states text[], since timestamptz, until timestamptz
);

-- An open or finished delivery as it appears in the log, with the columns of both tables plus its state and times.
create type business_api.logged_delivery as (
  organization_id text collate "C", id text collate "C", event_id text collate "C", type text, endpoint_id text collate "C",
  state text, reason text, attempts integer, due_at timestamptz, created_at timestamptz, finished_at timestamptz
);

-- Convert rows to log entries. These functions and the next one have no settings, so PostgreSQL inlines them and only
-- reads the necessary columns.
create function business_api.log_open(d business_api.open_deliveries) returns business_api.logged_delivery
language sql immutable
as $$
  select row(
    (d).organization_id, (d).id, (d).event_id, (d).type, (d).endpoint_id,
    case when (d).claim_token is null then 'pending' else 'sending' end, null::text,
    (d).attempts, case when (d).claim_token is null then (d).due_at end, (d).created_at, null::timestamptz
  )::business_api.logged_delivery
$$;

create function business_api.log_finished(d business_api.finished_deliveries) returns business_api.logged_delivery
language sql immutable
as $$
  select row(
    (d).organization_id, (d).id, (d).event_id, (d).type, (d).endpoint_id,
    (d).state, (d).reason, (d).attempts, null::timestamptz, (d).created_at, (d).finished_at
  )::business_api.logged_delivery
$$;

-- Returns true if a delivery matches a filter, except for subjectId, which is a column of the event.
create function business_api.is_selected(f business_api.delivery_filter, d business_api.logged_delivery) returns boolean
language sql immutable
as $$
  select ((f)."endpointId" is null or (d).endpoint_id = (f)."endpointId")
    and ((f)."eventId" is null or (d).event_id = (f)."eventId")
    and ((f).type is null or (d).type = (f).type)
    and ((f).states is null or (d).state = any ((f).states))
    and ((f).since is null or (d).created_at >= (f).since)
    and ((f).until is null or (d).created_at < (f).until)
$$;

-- Lists an organization's open deliveries that match a filter, in no particular order. Returns the newest row_limit
-- deliveries of each index range, with IDs of at least first_id and below end_id. The row comparisons force the planner
-- to use a single index for each range.
create function business_api.list_open_deliveries(
  organization_id text, filter jsonb, first_id text, end_id text, row_limit integer
) returns setof business_api.logged_delivery
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  f business_api.delivery_filter := jsonb_populate_record(null::business_api.delivery_filter, filter);
  has_pending boolean := f.states is null or 'pending' = any (f.states);
  has_sending boolean := f.states is null or 'sending' = any (f.states);
begin
  if has_pending and f."endpointId" is null then
    return query
      select (business_api.log_open(d)).* from business_api.open_deliveries d
       where d.organization_id = $1 and d.id >= $3 and d.id < $4
         and business_api.is_selected(f, business_api.log_open(d))
       order by d.id desc limit $5;
    return;
  end if;
  if has_pending then
    return query
      select due.*
        from (values (0), (1), (2)) as kind (priority)
        cross join lateral (
          select (business_api.log_open(d)).* from business_api.open_deliveries d
           where d.organization_id = $1 and d.endpoint_id = f."endpointId"
             and d.claim_token is null and not d.is_backing_off
             and (d.priority, d.id) >= (kind.priority, $3) and (d.priority, d.id) < (kind.priority, $4)
             and business_api.is_selected(f, business_api.log_open(d))
           order by d.priority desc, d.id desc limit $5
        ) as due;
    return query
      select (business_api.log_open(d)).* from business_api.open_deliveries d
       where d.organization_id = $1 and d.is_backing_off
         and (d.endpoint_id, d.id) >= (f."endpointId", $3) and (d.endpoint_id, d.id) < (f."endpointId", $4)
         and business_api.is_selected(f, business_api.log_open(d))
       order by d.endpoint_id desc, d.id desc limit $5;
  end if;
  if has_sending then
    -- There are at most as many as all processes can send at the same time.
    return query
      select (business_api.log_open(d)).* from business_api.open_deliveries d
       where d.lease_until is not null and d.organization_id = $1
         and d.id >= $3 and d.id < $4
         and business_api.is_selected(f, business_api.log_open(d))
       order by d.lease_until;
  end if;
end
$$;
select business_api.forbid_plans('list_open_deliveries', 'enable_sort');

-- Lists an event's open and finished deliveries, which are a range of both primary keys.
create function business_api.deliveries_of_event(organization_id text, event_id text, delivery_prefix text)
returns setof business_api.logged_delivery
language plpgsql stable rows 4
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
    select (business_api.log_open(d)).* from business_api.open_deliveries d
     where d.organization_id = $1 and d.id >= $3 and d.id < $3 || '~' and d.event_id = $2
    union all
    select (business_api.log_finished(d)).* from business_api.finished_deliveries d
     where d.organization_id = $1 and d.id >= $3 and d.id < $3 || '~' and d.event_id = $2;
end
$$;
select business_api.forbid_plans('deliveries_of_event');

-- Lists the open and finished deliveries of some events. An event is a range of both primary keys within its day.
create function business_api.deliveries_of_events(organization_id text, event_ids text[], delivery_prefixes text[])
returns setof business_api.logged_delivery
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  first_id text;
  end_id text;
begin
  select min(event.prefix collate "C"), max(event.prefix collate "C") || '~' into first_id, end_id
    from unnest($3) as event (prefix);
  return query
    select delivery.*
      from unnest($2, $3) as event (id, prefix)
      cross join lateral (
        select (business_api.log_open(d)).* from business_api.open_deliveries d
         where d.organization_id = $1 and d.id >= event.prefix and d.id < event.prefix || '~' and d.event_id = event.id
        union all
        select (business_api.log_finished(d)).* from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= event.prefix and d.id < event.prefix || '~' and d.event_id = event.id
           and d.id >= first_id and d.id < end_id
      ) as delivery;
end
$$;
select business_api.forbid_plans('deliveries_of_events');

-- Lists the latest open and finished deliveries of a record's events that match a filter, reading 250 events at a time
-- until there are at least row_limit deliveries. IDs are at least first_id and below end_id.
create function business_api.list_deliveries_of_subject(
  organization_id text, filter jsonb, first_id text, end_id text, row_limit integer
) returns setof business_api.logged_delivery
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  f business_api.delivery_filter := jsonb_populate_record(null::business_api.delivery_filter, filter);
  event_ids text[];
  prefixes text[];
  listed integer := 0;
  found_rows integer;
begin
  select array_agg(found.id), array_agg(found.delivery_prefix) into event_ids, prefixes
    from (
      select e.id, e.delivery_prefix from business_api.events_of_record($1, f."subjectId") as e
       where e.delivery_prefix >= $3 and e.delivery_prefix < $4
       order by e.delivery_prefix desc
    ) as found;
  for place in 1 .. coalesce(cardinality(event_ids), 0) by 250 loop
    return query
      select d.*
        from business_api.deliveries_of_events($1, event_ids[place:place + 249], prefixes[place:place + 249]) as d
       where d.id >= $3 and d.id < $4 and business_api.is_selected(f, d);
    get diagnostics found_rows = row_count;
    listed := listed + found_rows;
    exit when listed >= $5;
  end loop;
end
$$;
select business_api.forbid_plans('list_deliveries_of_subject');

-- Lists an organization's latest finished deliveries that match a filter, day by day until there are at least row_limit
-- deliveries after a complete day, reading up to the limit from each index range. IDs are at least first_id and below
-- end_id.
--
-- A statement across all days would take ten times as long to plan as to execute. Instead, each statement is planned
-- once per session and only opens one day's tables. Each state and endpoint is an index range, found by a loose index
-- scan with one lookup per endpoint, and the row comparisons force the planner to use that index. If row-level security
-- hides the days, all of the rows are read at once.
create function business_api.list_finished_deliveries(
  organization_id text, filter jsonb, first_id text, end_id text, row_limit integer, is_recoverable boolean
) returns setof business_api.logged_delivery
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  f business_api.delivery_filter := jsonb_populate_record(null::business_api.delivery_filter, filter);
  wanted text[] := array(
    select final.state from unnest(array['delivered', 'failed', 'skipped', 'cancelled']) as final (state)
     where f.states is null or final.state = any (f.states)
  );
  is_whole boolean := f."endpointId" is null and f.type is null and cardinality(wanted) = 4;
  removed text[] := array(
    select e.id from business_api.webhook_endpoints e
     where $6 and e.organization_id = $1 and e.state = 'removed'
  );
  listed integer := 0;
  found_rows integer;
  day record;
begin
  if wanted = '{}' then
    return;
  end if;
  for day in
    select g.begins, g.ends
      from (
        select greatest(d.begins, $3) as begins, least(d.ends, $4) as ends from business_api.event_days d
         where d.organization_id = '' and d.dropped_at is null and d.ends > $3 and d.begins < $4
        union all
        select $3, $4 where not exists (select 1 from business_api.event_days)
      ) as g
     order by g.begins desc
  loop
    if is_whole then
      return query
        select (business_api.log_finished(d)).* from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= day.begins and d.id < day.ends
           and business_api.is_selected(f, business_api.log_finished(d))
           and d.endpoint_id <> all (removed)
         order by d.id desc limit $5 - listed;
    elsif f.type is not null then
      return query
        with recursive scan as (
          select coalesce(f."endpointId", (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
               and d.type = f.type and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
          union all
          select (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
               and d.type = f.type and d.endpoint_id > scan.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from scan where scan.endpoint_id is not null and f."endpointId" is null
        )
        select found.* from scan, lateral (
          select (business_api.log_finished(d)).* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
             and (d.type, d.endpoint_id, d.id) >= (f.type, scan.endpoint_id, day.begins)
             and (d.type, d.endpoint_id, d.id) < (f.type, scan.endpoint_id, day.ends)
             and d.id >= day.begins and d.id < day.ends
             and business_api.is_selected(f, business_api.log_finished(d))
             and d.endpoint_id <> all (removed)
           order by d.type desc, d.endpoint_id desc, d.id desc limit $5 - listed
        ) as found where scan.endpoint_id is not null;
    else
      return query
        with recursive scan as (
          select each_state.state, coalesce(f."endpointId", (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = each_state.state
               and d.state in ('delivered', 'failed', 'skipped', 'cancelled') and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
            from unnest(wanted) as each_state (state)
          union all
          select scan.state, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = scan.state
               and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
               and d.endpoint_id > scan.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from scan where scan.endpoint_id is not null and f."endpointId" is null
        )
        select found.* from scan, lateral (
          select (business_api.log_finished(d)).* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
             and (d.state, d.endpoint_id, d.id) >= (scan.state, scan.endpoint_id, day.begins)
             and (d.state, d.endpoint_id, d.id) < (scan.state, scan.endpoint_id, day.ends)
             and d.id >= day.begins and d.id < day.ends
             and business_api.is_selected(f, business_api.log_finished(d))
             and d.endpoint_id <> all (removed)
           order by d.state desc, d.endpoint_id desc, d.id desc limit $5 - listed
        ) as found where scan.endpoint_id is not null;
    end if;
    get diagnostics found_rows = row_count;
    listed := listed + found_rows;
    exit when listed >= $5;
  end loop;
end
$$;
select business_api.forbid_plans('list_finished_deliveries', 'enable_sort');
