-- Retention by day. A day is dropped once all of it is older than the retention and no open deliveries are left. Rows
-- are only deleted one by one (50-retention.sql) for events in retained days and by manual purges.

-- Finds the oldest open delivery in a range of IDs, for the first organization that has one. A loose index scan takes
-- two primary key lookups per organization with open deliveries, no matter how many there are. Returns a JSON object
-- with the organization, the endpoint and the publishing time, or an empty object if the scan gives up after 100,000
-- steps (a second), or null if the range has no open delivery.
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

-- Returns up to 100 open deliveries that keep days from being dropped, as a JSON array with each endpoint's oldest one.
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

-- Returns a day's tables as a list for use in a statement, or null if all of them have been dropped.
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

-- Runs a part of the work on days: creates days ahead of time, drops a day, or deletes a dropped day's IDs. Runs with
-- the schema owner's privileges. Returns a JSON object with the number of dropped days, an estimate of the dropped
-- events, and, as `retained`, the open deliveries that keep days from being dropped.
--
-- A day is dropped in a single transaction, and PostgreSQL deletes the files after releasing the locks. We wait only 50
-- ms for each lock, so others don't have to wait for long. If there's a long transaction, we release all locks and
-- retry the day after a minute. If the host's transactions overlap, there may always be one that takes longer than 50
-- ms. So after six hours, we wait 500 ms for each lock, every ten minutes. That's still less than deadlock_timeout, so
-- none of the host's transactions are aborted by a deadlock and no vacuum is cancelled.
--
-- Days are checked in turn because all of the oldest ones may be retained.
--
-- An open delivery is never lost. A delivery in an old day can become open because
--
-- 1. a publisher's transaction has been open since that day,
-- 2. the clock was behind when a publisher started, or
-- 3. a delivery is sent again.
--
-- All of these write to one of the day's tables. The share locks on these tables wait for such transactions to end and
-- block new ones. The second scan starts after that with a new snapshot, so it finds every open delivery of the day,
-- and no more can be added. A repeatable read transaction only sees deliveries from before it started, so it only drops
-- a day without rows. The locks are released after the check, even if the day is kept.
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
      -- A manual vacuum is running. There are still days for almost a week.
      when lock_not_available or deadlock_detected then null;
    end;
  end if;

  -- A retained day is checked again after ten minutes, or if the clock was ahead. Days are kept for at least one day,
  -- so no publisher is still using them.
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
        -- Releases the locks.
        raise exception 'the day is retained';
      exception
        when lock_not_available or deadlock_detected then is_locked := true;
        when raise_exception then
          -- One of the host's triggers may raise this error too.
          if holder is null then
            raise;
          end if;
          check_at := at_time;
      end;
    end if;
    -- An inconclusive check keeps the endpoint that the day is currently retained for.
    update business_api.event_days d
       set checked_at = check_at, retained_for = case when holder = '{}' then d.retained_for else holder end
     where d.organization_id = '' and d.begins = day.begins;
    if is_locked then
      -- Another day would have to wait for the same transaction. It goes first next time.
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

-- Returns how overdue the oldest droppable day is, in milliseconds, or zero if there is none. Only counts days that
-- were checked and aren't retained, so a transaction that has been in the way for days gets reported. Runs with the
-- schema owner's privileges, so reading the lag doesn't require access to the days.
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

select business_api.make_days();
