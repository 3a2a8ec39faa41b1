-- Counts unfinished and failed deliveries for metrics and operators. See DeliveryStore.countQueue. Each count stops
-- after count_max, so it costs the same with a thousand due deliveries as with a million.
--
-- This is a loose index scan over the endpoints that have deliveries, which never reads more than count_max deliveries
-- of a paused endpoint. After 200 endpoints (30 to 60 microseconds each), a plain scan reads up to three times
-- count_max deliveries, which is enough unless the queue is longer. If it is, the loose scan continues up to 1,000
-- endpoints, and the higher count is returned, possibly without the oldest due delivery. Every statement has an order
-- that matches its index, because the planner might otherwise scan all of another one.
create function business_api.count_queue(organization_id text, endpoint_id text, count_max integer) returns text
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  at_time timestamptz := clock_timestamp();
  -- One more than count_max means that there are more.
  counted_max integer := count_max + 1;
  -- Limit for plain scans of the queue and of failed deliveries.
  scanned_max integer := 3 * count_max;
  visits integer := 0;
  scanned bigint;
  scanned_due bigint := 0;
  scanned_paused bigint := 0;
  scanned_oldest timestamptz;
  scanned_failed bigint := 0;
  here_organization text := coalesce($1, '');
  here_endpoint text := '';
  endpoint_state text;
  found_due bigint;
  found_late bigint;
  found_backing_off bigint;
  found_paused bigint;
  found_oldest timestamptz;
  late_oldest timestamptz;
  due bigint := 0;
  oldest_due timestamptz;
  backing_off bigint := 0;
  paused bigint := 0;
  sending bigint := 0;
  failed bigint := 0;
begin
  while visits < 1000 loop
    if visits = 200 and $1 is null then
      select count(*),
             count(*) filter (where f.endpoint_state = 'enabled' and f.due_at <= at_time),
             count(*) filter (where f.endpoint_state = 'paused'),
             min(f.due_at) filter (where f.endpoint_state = 'enabled' and f.due_at <= at_time and not f.is_backfill)
        into scanned, scanned_due, scanned_paused, scanned_oldest
        from (
          select first.due_at, first.is_backfill, e.state as endpoint_state
            from (
              select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from business_api.open_deliveries d
               where d.claim_token is null and not d.is_backing_off
               order by d.organization_id, d.endpoint_id, d.priority, d.id
               limit scanned_max
            ) as first
            left join business_api.webhook_endpoints e
              on e.organization_id = first.organization_id and e.id = first.endpoint_id
        ) as f;
      exit when scanned < scanned_max;
    end if;
    visits := visits + 1;
    if $1 is null then
      select next.organization_id, next.endpoint_id, e.state into here_organization, here_endpoint, endpoint_state
        from (
          select d.organization_id, d.endpoint_id from business_api.open_deliveries d
           where d.claim_token is null and not d.is_backing_off
             and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
           order by d.organization_id, d.endpoint_id
           limit 1
        ) as next
        left join business_api.webhook_endpoints e on e.organization_id = next.organization_id and e.id = next.endpoint_id;
    else
      select e.id, e.state into here_endpoint, endpoint_state
        from business_api.webhook_endpoints e
       where e.organization_id = $1 and e.id > here_endpoint and ($2 is null or e.id = $2)
       order by e.id
       limit 1;
    end if;
    exit when not found;

    if endpoint_state = 'enabled' then
      -- The oldest first attempt is the first row, and the oldest retry is among the first hundred. These are read even
      -- if the count has reached its limit.
      select count(*), min(f.due_at) filter (where not f.is_backfill) into found_due, found_oldest
        from (values (0, 1), (1, 100), (2, 0)) as kind (priority, least_read)
        cross join lateral (
          select d.due_at, d.is_backfill from business_api.open_deliveries d
           where d.claim_token is null and not d.is_backing_off
             and d.organization_id = here_organization and d.endpoint_id = here_endpoint
             and (d.priority, d.id) >= (kind.priority, '') and (d.priority, d.id) < (kind.priority + 1, '')
           order by d.priority, d.id limit greatest(kind.least_read, counted_max - due)
        ) as f;
      due := least(counted_max, due + found_due);
      oldest_due := least(oldest_due, found_oldest);
    elsif endpoint_state = 'paused' and paused < counted_max then
      select count(*) into found_paused
        from (
          select 1 from business_api.open_deliveries d
           where d.claim_token is null and not d.is_backing_off
             and d.organization_id = here_organization and d.endpoint_id = here_endpoint
           order by d.priority, d.id limit counted_max - paused
        ) as f;
      paused := least(counted_max, paused + found_paused);
    end if;

    if $1 is not null then
      if endpoint_state in ('enabled', 'paused') then
        select count(*) filter (where f.due_at > at_time),
               count(*) filter (where f.due_at <= at_time),
               min(f.due_at) filter (where f.due_at <= at_time and not f.is_backfill)
          into found_backing_off, found_late, late_oldest
          from (
            select d.is_backfill, d.due_at from business_api.open_deliveries d
             where d.organization_id = $1 and d.is_backing_off
               and (d.endpoint_id, d.id) >= (here_endpoint, '') and (d.endpoint_id, d.id) < (here_endpoint, '~')
             order by d.endpoint_id, d.id limit counted_max
          ) as f;
        backing_off := least(counted_max, backing_off + found_backing_off);
        if endpoint_state = 'enabled' then
          due := least(counted_max, due + found_late);
          oldest_due := least(oldest_due, late_oldest);
        else
          paused := least(counted_max, paused + found_late);
        end if;
      end if;
      select least(counted_max, failed + count(*)) into failed
        from (
          select 1 from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('failed', 'skipped') and d.state = 'failed'
             and d.endpoint_id = here_endpoint
           order by d.id limit counted_max - failed
        ) as f;
    end if;
  end loop;

  if $1 is null then
    due := least(counted_max, greatest(due, scanned_due));
    paused := least(counted_max, greatest(paused, scanned_paused));
    oldest_due := least(oldest_due, scanned_oldest);
    select count(*) filter (where f.endpoint_state in ('enabled', 'paused')) into backing_off
      from (
        select e.state as endpoint_state
          from (
            select d.organization_id, d.endpoint_id from business_api.open_deliveries d
             where d.is_backing_off and d.due_at > at_time
             order by d.due_at limit counted_max
          ) as waiting
          left join business_api.webhook_endpoints e
            on e.organization_id = waiting.organization_id and e.id = waiting.endpoint_id
      ) as f;
    -- Due retries are stored as backing off until a loop's next claim (promote_due_retries).
    select count(*) filter (where f.endpoint_state = 'enabled'),
           count(*) filter (where f.endpoint_state = 'paused'),
           min(f.due_at) filter (where f.endpoint_state = 'enabled' and not f.is_backfill)
      into found_due, found_paused, found_oldest
      from (
        select e.state as endpoint_state, late.due_at, late.is_backfill
          from (
            select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from business_api.open_deliveries d
             where d.is_backing_off and d.due_at <= at_time
             order by d.due_at limit counted_max
          ) as late
          join business_api.webhook_endpoints e on e.organization_id = late.organization_id and e.id = late.endpoint_id
      ) as f;
    due := least(counted_max, due + found_due);
    paused := least(counted_max, paused + found_paused);
    oldest_due := least(oldest_due, found_oldest);

    -- This goes by organization because there are skipped deliveries between the failed ones. It falls back to the same
    -- kind of plain scan.
    visits := 0;
    here_organization := '';
    while visits < 1000 and failed < counted_max loop
      if visits = 200 then
        select count(*), count(*) filter (where f.state = 'failed') into scanned, scanned_failed
          from (
            select d.state from business_api.finished_deliveries d
             where d.state in ('failed', 'skipped')
             order by d.organization_id, d.state, d.endpoint_id, d.id
             limit scanned_max
          ) as f;
        exit when scanned < scanned_max;
      end if;
      visits := visits + 1;
      select d.organization_id into here_organization from business_api.finished_deliveries d
       where d.state in ('failed', 'skipped') and d.organization_id > here_organization
       order by d.organization_id, d.state, d.endpoint_id, d.id
       limit 1;
      exit when not found;
      select least(counted_max, failed + count(*)) into failed
        from (
          select 1 from business_api.finished_deliveries d
           where d.organization_id = here_organization
             and d.state in ('failed', 'skipped') and d.state = 'failed'
           order by d.endpoint_id, d.id limit counted_max - failed
        ) as f;
    end loop;
    failed := least(counted_max, greatest(failed, scanned_failed));
  end if;

  select count(*) into sending
    from (
      select d.organization_id, d.endpoint_id from business_api.open_deliveries d
       where d.lease_until is not null
       order by d.lease_until limit counted_max
    ) as f
   where ($1 is null or f.organization_id = $1) and ($2 is null or f.endpoint_id = $2);

  return json_build_object(
    'due', due,
    'oldestDueMs', greatest(0, coalesce(extract(epoch from at_time - oldest_due) * 1000, 0)),
    'backingOff', backing_off,
    'paused', paused,
    'sending', sending,
    'failed', failed
  )::text;
end
$$;
select business_api.forbid_plans('count_queue', 'enable_sort');
