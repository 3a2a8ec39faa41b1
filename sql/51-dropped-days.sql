-- Retention by day: a day is dropped once the whole day is older than the retention and has no open delivery. Only events in retained
-- days, and those of a manual purge, are deleted row by row (50-retention.sql).

-- Finds the oldest open delivery of the first organization with an open delivery in a range of ids. A loose index scan descends the primary
-- key twice for each organization with open deliveries, however many deliveries these are. Returns, as JSON, the organization, the
-- endpoint and the time of publishing; an empty object if the scan ends after 100,000 steps (a second) without a result; null if
-- nothing in the range is open.
create function business_api.find_open_delivery(begins text, ends text) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  here_organization text := '';
  here_id text := '';
  found_delivery record;
begin
  for step in 1 .. 100000 loop
    select d.organization_id, d.id, d.endpoint_id, d.created_at into found_delivery from business_api.open_deliveries d
     where (d.organization_id, d.id) >= (here_organization, here_id)
     order by d.organization_id, d.id
     limit 1;
    if not found then
      return null;
    end if;
    here_organization := found_delivery.organization_id;
    if found_delivery.id collate "C" < begins then
      here_id := begins;
    elsif found_delivery.id collate "C" < ends then
      return jsonb_build_object(
        'organizationId', found_delivery.organization_id, 'endpointId', found_delivery.endpoint_id,
        'since', to_char(found_delivery.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      );
    else
      here_id := '~';
    end if;
  end loop;
  return '{}';
end
$$;
select business_api.forbid_plans('find_open_delivery', 'enable_sort');

-- Returns the open deliveries for which days are retained, as a JSON array with the oldest of each endpoint, at most 100.
create function business_api.retained_deliveries() returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_agg(retained.delivery order by retained.begins), '[]')
    from (
      select (array_agg(d.retained_for order by d.begins))[1] as delivery, min(d.begins) as begins
        from business_api.event_days d
       where d.organization_id = '' and d.dropped_at is null and d.retained_for is not null
       group by d.retained_for ->> 'organizationId', d.retained_for ->> 'endpointId'
       order by 2
       limit 100
    ) as retained
$$;

-- Returns a day's tables, as a list for a statement; null if all were dropped.
create function business_api.tables_of_day(name text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select string_agg(t.oid::text, ', ' order by p.place)
      from unnest(array['events', 'finished_deliveries', 'delivery_attempts']) with ordinality as p (parent, place)
      cross join lateral to_regclass(format('business_api.%I', p.parent || '_' || $1)) as t (oid)
  );
end
$$;

-- Does a part of the work on days: creates days ahead, drops a day, or deletes a dropped day's ids. With the privileges of the schema's
-- owner. Returns as JSON: the number of dropped days, an estimate of the dropped events, and `retained`: the open deliveries that keep
-- days.
--
-- A day is dropped in a single transaction; PostgreSQL deletes the files after releasing the locks. Others don't wait long: the drop
-- waits 50 ms for each lock. If a long transaction is in the way, the drop gives up all locks, and tries the day again after a minute.
-- On a database where the host's transactions overlap, there may always be one that is longer than 50 ms: after six hours the drop
-- waits 500 ms for each lock, every ten minutes. That is less than the deadlock_timeout, so no deadlock ends a transaction of the host,
-- and no vacuum is cancelled.
--
-- The days are checked in turn, because the oldest days may all be retained.
--
-- Nothing open is lost. A delivery of an old day can become open in three ways:
--
-- 1. a publisher's transaction has been open since that day,
-- 2. the clock was behind when a publisher began,
-- 3. a delivery is sent again.
--
-- Each of these writes to a table of the day. The share locks on these tables wait for the end of such transactions, and keep new ones
-- out. The second scan begins after these locks, with a new snapshot, and so finds each delivery of the day that is open; none can be
-- added. A repeatable read transaction sees only deliveries from before it began, so it drops only a day without rows. The locks end
-- with the check, also if the day stays.
create function business_api.purge_days(retention_ms double precision, part_limit integer) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set lock_timeout = '50ms'
as $$
declare
  at_time timestamptz := clock_timestamp();
  old_before timestamptz;
  day business_api.event_days;
  check_at timestamptz;
  is_locked boolean;
  holder jsonb;
  tables text;
  events bigint;
  deleted integer;
begin
  if business_api.days_end(at_time) < at_time + interval '144 hours' then
    begin
      perform business_api.make_days();
    exception
      -- A vacuum by hand is under way. There are days for almost a week.
      when lock_not_available or deadlock_detected then null;
    end;
  end if;

  -- A retained day is checked again after ten minutes, and after a clock that was ahead. A day stays for a day at least, so
  -- that no publisher is still at work on it.
  old_before := at_time - greatest(retention_ms, 86400000) * interval '1 millisecond';
  for day in
    select d.* from business_api.event_days d
     where d.organization_id = '' and d.dropped_at is null and d.ends_at <= old_before
       and coalesce(d.checked_at not between at_time - interval '10 minutes' and at_time, true)
     order by d.checked_at nulls first, d.begins
  loop
    check_at := at_time;
    is_locked := false;
    holder := business_api.find_open_delivery(day.begins, day.ends);
    if holder is null then
      begin
        if day.ends_at <= old_before - interval '6 hours' then
          perform set_config('lock_timeout', '500ms', true);
        else
          perform set_config('lock_timeout', '50ms', true);
          check_at := at_time - interval '9 minutes';
        end if;
        tables := business_api.tables_of_day(day.name);
        if tables is not null then
          execute format('lock table %s in share mode', tables);
        end if;
        if current_setting('transaction_isolation') = 'read committed' then
          holder := business_api.find_open_delivery(day.begins, day.ends);
        elsif pg_relation_size(to_regclass(format('business_api.%I', 'events_' || day.name))) > 0 then
          holder := '{}';
        end if;
        if holder is null then
          lock table only business_api.events, only business_api.finished_deliveries, only business_api.delivery_attempts
            in access exclusive mode;
          select greatest(c.reltuples, 0) into events from pg_catalog.pg_class c
           where c.oid = to_regclass(format('business_api.%I', 'events_' || day.name));
          if tables is not null then
            execute 'drop table ' || tables;
          end if;
          update business_api.event_days d set dropped_at = at_time, retained_for = null
           where d.organization_id = '' and d.begins = day.begins;
          return jsonb_build_object('days', 1, 'events', coalesce(events, 0), 'retained', business_api.retained_deliveries());
        end if;
        -- Gives up the locks.
        raise exception 'the day is retained';
      exception
        when lock_not_available or deadlock_detected then is_locked := true;
        when raise_exception then
          -- A trigger of the host's may raise this error too.
          if holder is null then
            raise;
          end if;
          check_at := at_time;
      end;
    end if;
    -- A check that ended without a result says nothing about the endpoint for which the day was retained until now.
    update business_api.event_days d
       set checked_at = check_at, retained_for = case when holder = '{}' then d.retained_for else holder end
     where d.organization_id = '' and d.begins = day.begins;
    if is_locked then
      -- Another day would wait for the same transaction. It is tried first the next time.
      update business_api.event_days d set checked_at = check_at - interval '1 second'
       where d.organization_id = '' and d.dropped_at is null and d.ends_at <= old_before and d.retained_for is null
         and d.begins <> day.begins;
    end if;
    exit when is_locked or clock_timestamp() > at_time + interval '200 milliseconds';
  end loop;

  select d.* into day from business_api.event_days d
   where d.organization_id = '' and d.dropped_at is not null
   order by d.begins
   limit 1;
  if found then
    delete from business_api.event_ids i
     using (
       select g.organization_id, g.id from business_api.event_ids g
        where g.delivery_prefix >= day.begins and g.delivery_prefix < day.ends
        order by g.delivery_prefix
        limit part_limit
     ) as gone
     where i.organization_id = gone.organization_id and i.id = gone.id;
    get diagnostics deleted = row_count;
    if deleted < part_limit then
      delete from business_api.event_days d where d.organization_id = '' and d.begins = day.begins;
    end if;
  end if;
  return jsonb_build_object(
    'days', 0, 'events', 0, 'retained', business_api.retained_deliveries(),
    'isDone', not exists (
      select 1 from business_api.event_days d where d.organization_id = '' and d.dropped_at is not null
    )
  );
end
$$;
revoke execute on function business_api.purge_days(double precision, integer) from public;

-- Computes the milliseconds since the oldest day that may be dropped was to be gone: it was checked, and is not retained.
-- So a transaction that is in the way for days is reported. Zero if there is none. With the privileges of the schema's owner, because
-- the parts of an application that read the lag need not read the days.
create function business_api.late_day_ms(retention_ms double precision) returns double precision
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select greatest(0, coalesce(max(
             extract(epoch from now() - d.ends_at) * 1000 - greatest(retention_ms, 86400000)
             - business_api.day_grace_ms(retention_ms)
           ), 0))
      from business_api.event_days d
     where d.organization_id = '' and d.dropped_at is null and d.checked_at is not null and d.retained_for is null
  );
end
$$;
revoke execute on function business_api.late_day_ms(double precision) from public;

-- The first days.
select business_api.make_days();
