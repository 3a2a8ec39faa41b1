-- The delivery log: open deliveries, the deliveries of events, and finished deliveries day by day.

-- Lists the open deliveries of an organization that a filter selects, in no certain order: of each range of an index up to
-- row_limit, the newest. `type`, `since` and `until` may be null, and `endpoint_id` for all endpoints. The ids are at least first_id
-- and below end_id. The comparisons of rows leave the planner one index for each range.
create function business_api.list_open_deliveries(
  organization_id text,
  endpoint_id text,
  type text,
  has_pending boolean,
  has_sending boolean,
  since timestamptz,
  until timestamptz,
  first_id text,
  end_id text,
  row_limit integer
) returns setof business_api.open_deliveries
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
begin
  if $4 and $2 is null then
    return query
      select d.* from business_api.open_deliveries d
       where d.organization_id = $1 and d.id >= $8 and d.id < $9 and ($5 or d.claim_token is null)
         and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
       order by d.id desc limit $10;
    return;
  end if;
  if $4 then
    return query
      select due.*
        from (values (0), (1), (2)) as kind (priority)
        cross join lateral (
          select d.* from business_api.open_deliveries d
           where d.organization_id = $1 and d.endpoint_id = $2
             and d.claim_token is null and not d.is_backing_off
             and (d.priority, d.id) >= (kind.priority, $8) and (d.priority, d.id) < (kind.priority, $9)
             and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
           order by d.priority desc, d.id desc limit $10
        ) as due;
    return query
      select d.* from business_api.open_deliveries d
       where d.organization_id = $1 and d.is_backing_off
         and (d.endpoint_id, d.id) >= ($2, $8) and (d.endpoint_id, d.id) < ($2, $9)
         and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
       order by d.endpoint_id desc, d.id desc limit $10;
  end if;
  if $5 then
    -- Never more than the slots of all processes together.
    return query
      select d.* from business_api.open_deliveries d
       where d.lease_until is not null and d.organization_id = $1 and ($2 is null or d.endpoint_id = $2)
         and d.id >= $8 and d.id < $9
         and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
       order by d.lease_until;
  end if;
end
$$;
select business_api.forbid_plans('list_open_deliveries', 'enable_sort');

-- Lists the deliveries of an event, open and finished: a range of both primary keys.
create function business_api.deliveries_of_event(organization_id text, event_id text, delivery_prefix text)
returns table (id text, type text, endpoint_id text, state text, created_at timestamptz)
language plpgsql stable rows 4
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
    select d.id, d.type, d.endpoint_id, case when d.claim_token is null then 'pending' else 'sending' end, d.created_at
      from business_api.open_deliveries d
     where d.organization_id = $1 and d.id >= $3 and d.id < $3 || '~' and d.event_id = $2
    union all
    select d.id, d.type, d.endpoint_id, d.state, d.created_at
      from business_api.finished_deliveries d
     where d.organization_id = $1 and d.id >= $3 and d.id < $3 || '~' and d.event_id = $2;
end
$$;
select business_api.forbid_plans('deliveries_of_event');

-- Lists the deliveries of events, open and finished: a range of both primary keys for each event, in the days of the events.
create function business_api.deliveries_of_events(organization_id text, event_ids text[], delivery_prefixes text[])
returns table (event_id text, id text, type text, endpoint_id text, state text, created_at timestamptz)
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
    select event.id, delivery.*
      from unnest($2, $3) as event (id, prefix)
      cross join lateral (
        select d.id, d.type, d.endpoint_id, case when d.claim_token is null then 'pending' else 'sending' end, d.created_at
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
select business_api.forbid_plans('deliveries_of_events');

-- Lists the finished deliveries of an organization that a filter selects, day by day and the newest or the oldest first, until a day is
-- complete with row_limit deliveries or more: of each range of an index up to the limit. `endpoint_id`, `type`, `since` and `until` may
-- be null. The ids are at least first_id and below end_id. A statement over all days would take ten times as long to plan as to run;
-- here each statement is planned once in a session, and opens the tables of one day: a parameter for the order would leave the planner
-- no index, so that the two functions are made from one text. Each state and endpoint is a range of an index: a loose index scan goes
-- from endpoint to endpoint, with one descent for each, and the comparisons of rows leave the planner that index. If row level security
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
        with recursive scan as (
          select coalesce($2, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
               and d.type = $4 and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
          union all
          select (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
               and d.type = $4 and d.endpoint_id > scan.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from scan where scan.endpoint_id is not null and $2 is null
        )
        select found.* from scan, lateral (
          select d.* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
             and (d.type, d.endpoint_id, d.id) >= ($4, scan.endpoint_id, day.begins)
             and (d.type, d.endpoint_id, d.id) < ($4, scan.endpoint_id, day.ends)
             and d.state = any ($3) and d.id >= day.begins and d.id < day.ends
             and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
             and (not $10 or exists (
               select 1 from business_api.webhook_endpoints e
                where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
             ))
           order by d.type %1$s, d.endpoint_id %1$s, d.id %1$s limit $9 - listed
        ) as found where scan.endpoint_id is not null;
    else
      return query
        with recursive scan as (
          select wanted.state, coalesce($2, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = wanted.state
               and d.state in ('delivered', 'failed', 'skipped', 'cancelled') and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
            from unnest($3) as wanted (state)
          union all
          select scan.state, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = scan.state
               and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
               and d.endpoint_id > scan.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from scan where scan.endpoint_id is not null and $2 is null
        )
        select found.* from scan, lateral (
          select d.* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
             and (d.state, d.endpoint_id, d.id) >= (scan.state, scan.endpoint_id, day.begins)
             and (d.state, d.endpoint_id, d.id) < (scan.state, scan.endpoint_id, day.ends)
             and d.id >= day.begins and d.id < day.ends
             and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
             and (not $10 or exists (
               select 1 from business_api.webhook_endpoints e
                where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
             ))
           order by d.state %1$s, d.endpoint_id %1$s, d.id %1$s limit $9 - listed
        ) as found where scan.endpoint_id is not null;
    end if;
    get diagnostics found_rows = row_count;
    listed := listed + found_rows;
    exit when listed >= $9;
  end loop;
end
$body$
    $text$, direction, case when direction = 'desc' then 'newest' else 'oldest' end);
  end loop;
  perform business_api.forbid_plans('list_newest_finished', 'enable_sort'), business_api.forbid_plans('list_oldest_finished', 'enable_sort');
end
$do$;
