-- Days in time: each day that may go is looked at in turn, a day that long transactions keep is waited for longer and reported, and
-- publishers make the next days before these are needed. These functions replace functions of 0028 and 0032.
-- Locks: the tables of the first day of an installation from before the days, for an instant.

-- Returns the tables of a day, in a list for a statement; null if somebody has dropped all.
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

-- Does one part of the work on days: makes days ahead, drops one day, or deletes the ids of a dropped day. With the privileges of the
-- schema's owner. Returns, as JSON, the number of dropped days, an estimate of the events in the dropped day, and `kept`: the open
-- deliveries for which days stay.
--
-- A day is dropped in one transaction, which PostgreSQL either makes whole or not at all; the files are deleted after the locks are
-- released. Nobody waits long: the drop waits 50 ms for each lock. If a long transaction is in the way, the drop gives up all locks,
-- and tries the day again after a minute. On a database where the host's transactions overlap, there may always be one that is longer
-- than 50 ms: after six hours the drop waits 500 ms for each lock, every ten minutes. That is less than the deadlock_timeout, so that
-- no deadlock ends a transaction of the host, and no vacuum is cancelled.
--
-- The days are looked at in turn, because the oldest days may all be kept.
--
-- Nothing open is lost. A delivery of an old day can become open in three ways:
--
-- 1. a publisher's transaction has been open since that day,
-- 2. the clock was behind when a publisher began,
-- 3. a delivery is sent again.
--
-- Each of these writes to a table of the day. The share locks on these tables wait for the end of such transactions, and keep new ones
-- out. The second walk begins after these locks, with a new snapshot, and so finds each delivery of the day that is open; none can be
-- added. A transaction with one snapshot for all statements (repeatable read) finds only what was open when it began, and drops only a
-- day without rows. The locks end with the look, also where the day stays.
create or replace function business_api.purge_days(retention_ms double precision, part_limit integer) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set lock_timeout = '50ms'
as $$
declare
  at_time timestamptz := clock_timestamp();
  old_before timestamptz;
  day business_api.event_days;
  look_at timestamptz;
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

  -- A day that is kept is looked at again after ten minutes, and after a clock that was ahead. A day stays for a day at least, so
  -- that no publisher is still at work on it.
  old_before := at_time - greatest(retention_ms, 86400000) * interval '1 millisecond';
  for day in
    select d.* from business_api.event_days d
     where d.organization_id = '' and d.dropped_at is null and d.ends_at <= old_before
       and coalesce(d.looked_at not between at_time - interval '10 minutes' and at_time, true)
     order by d.looked_at nulls first, d.begins
  loop
    look_at := at_time;
    is_locked := false;
    holder := business_api.find_open_delivery(day.begins, day.ends);
    if holder is null then
      begin
        if day.ends_at <= old_before - interval '6 hours' then
          perform set_config('lock_timeout', '500ms', true);
        else
          perform set_config('lock_timeout', '50ms', true);
          look_at := at_time - interval '9 minutes';
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
          update business_api.event_days d set dropped_at = at_time, kept_by = null
           where d.organization_id = '' and d.begins = day.begins;
          return jsonb_build_object('days', 1, 'events', coalesce(events, 0), 'kept', business_api.kept_deliveries());
        end if;
        -- Gives up the locks.
        raise exception 'the day is kept';
      exception
        when lock_not_available or deadlock_detected then is_locked := true;
        when raise_exception then
          -- A trigger of the host's may raise this error too.
          if holder is null then
            raise;
          end if;
          look_at := at_time;
      end;
    end if;
    -- A look that ended without an answer says nothing about the endpoint for which the day was kept until now.
    update business_api.event_days d
       set looked_at = look_at, kept_by = case when holder = '{}' then d.kept_by else holder end
     where d.organization_id = '' and d.begins = day.begins;
    if is_locked then
      -- Another day would wait for the same transaction. It is tried first the next time.
      update business_api.event_days d set looked_at = look_at - interval '1 second'
       where d.organization_id = '' and d.dropped_at is null and d.ends_at <= old_before and d.kept_by is null
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
    'days', 0, 'events', 0, 'kept', business_api.kept_deliveries(),
    'isDone', not exists (
      select 1 from business_api.event_days d where d.organization_id = '' and d.dropped_at is not null
    )
  );
end
$$;

-- Computes the milliseconds since the oldest day that may be dropped was to be gone: it was looked at, and no open delivery keeps it.
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
     where d.organization_id = '' and d.dropped_at is null and d.looked_at is not null and d.kept_by is null
  );
end
$$;

-- The workers of the running version go on purging until the grants of this version are run.
revoke execute on function business_api.purge_days(double precision, integer), business_api.late_day_ms(double precision) from public;
do $$
declare
  role text;
begin
  for role in
    select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
      from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) as a
     where c.oid = 'business_api.events'::regclass and a.privilege_type = 'DELETE' and a.grantee <> c.relowner
  loop
    execute format(
      'grant execute on function business_api.purge_days(double precision, integer), business_api.late_day_ms(double precision) to %s',
      role
    );
  end loop;
end
$$;

-- Computes the lag of a purge in milliseconds: the age, beyond the retention, of the first event that the purge has not reached.
-- An event is in time while its day may still be dropped. A day that cannot be dropped counts too.
create or replace function business_api.purge_lag(retention_ms double precision, walk jsonb) returns double precision
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  place jsonb := walk -> 'event';
  oldest timestamptz;
begin
  select e.created_at into oldest from business_api.events e
   where (e.created_at, e.organization_id, e.id) > (
           coalesce((place ->> 'createdAt')::timestamptz, '-infinity'),
           coalesce(place ->> 'organizationId', ''), coalesce(place ->> 'id', '')
         )
   order by e.created_at, e.organization_id, e.id
   limit 1;
  return greatest(
    business_api.late_day_ms(retention_ms),
    coalesce(extract(epoch from now() - oldest) * 1000 - retention_ms - business_api.day_grace_ms(retention_ms), 0)
  );
end
$$;

-- Does the next part of the shared purge: see DeliveryStore.continuePurge in lib/webhooks/deliveries.ts. A part drops a day, and
-- then nothing else, or deletes rows. Only events that are too old for their day to be still ahead are deleted row by row.
create or replace function business_api.continue_purge(retention_ms double precision, part_limit integer, share double precision)
returns jsonb
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_variable
declare
  begun_at timestamptz := clock_timestamp();
  progress business_api.purge_progress;
  -- Age at which events are deleted row by row.
  old_ms double precision := retention_ms + business_api.day_grace_ms(retention_ms);
  day jsonb := '{}';
  part jsonb;
  second jsonb;
  is_done boolean;
begin
  select p.* into progress from business_api.purge_progress p where p.organization_id = '' for update skip locked;
  if not found and exists (select 1 from business_api.purge_progress) then
    -- Another process holds the row and purges.
    return jsonb_build_object(
      'events', 0, 'days', 0, 'idempotencyKeys', 0, 'isDone', true, 'waitMs', 0, 'lagMs', null, 'kept', json_build_array()
    );
  end if;
  -- A clock that was set back must not stop the purge.
  if progress.rests_until > begun_at and progress.rests_until < begun_at + interval '5 minutes' then
    return jsonb_build_object(
      'events', 0, 'days', 0, 'idempotencyKeys', 0, 'isDone', false,
      'waitMs', extract(epoch from progress.rests_until - begun_at) * 1000, 'lagMs', null, 'kept', json_build_array()
    );
  end if;

  begin
    day := business_api.purge_days(retention_ms, part_limit);
  exception
    -- Row level security that is forced on the schema's owner: an open delivery might be hidden.
    when insufficient_privilege then day := '{}';
  end;
  if day -> 'days' = '1' then
    update business_api.purge_progress p
       set retention_ms = retention_ms, purged_at = clock_timestamp(),
           rests_until = clock_timestamp() + (clock_timestamp() - begun_at) * (1 / share - 1)
     where p.organization_id = '';
    return jsonb_build_object(
      'events', day -> 'events', 'days', 1, 'idempotencyKeys', 0, 'isDone', false,
      'waitMs', extract(epoch from clock_timestamp() - begun_at) * 1000 * (1 / share - 1),
      'lagMs', business_api.purge_lag(retention_ms, progress.walk), 'kept', coalesce(day -> 'kept', '[]')
    );
  end if;

  -- A clock that was ahead must not leave the walk beyond events that become old later.
  if (progress.walk -> 'event' ->> 'createdAt')::timestamptz > begun_at - old_ms * interval '1 millisecond' then
    progress.walk := '{}';
  end if;

  -- If row level security hides the row, each part begins with the oldest event.
  part := business_api.purge_part(old_ms, coalesce(progress.walk, '{}'), part_limit, false, null);
  is_done := (part ->> 'isDone')::boolean and coalesce((day ->> 'isDone')::boolean, true);
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

  update business_api.purge_progress p
     set retention_ms = retention_ms, walk = part -> 'walk',
         revisit = progress.revisit, revisited_at = progress.revisited_at,
         purged_at = clock_timestamp(),
         rests_until = case
           when is_done then '-infinity'
           else clock_timestamp() + (clock_timestamp() - begun_at) * (1 / share - 1)
         end
   where p.organization_id = '';
  return jsonb_build_object(
    'events', (part ->> 'events')::bigint + coalesce((second ->> 'events')::bigint, 0),
    'days', 0,
    'idempotencyKeys', (part ->> 'idempotencyKeys')::bigint + coalesce((second ->> 'idempotencyKeys')::bigint, 0),
    'isDone', is_done,
    'waitMs', extract(epoch from clock_timestamp() - begun_at) * 1000 * (1 / share - 1),
    'lagMs', business_api.purge_lag(retention_ms, part -> 'walk'),
    'kept', coalesce(day -> 'kept', '[]')
  );
end
$$;

-- Makes days ahead for a publisher, where no loop makes days. The first publisher of the last two days makes the next days, and the
-- others go on meanwhile: a publisher that finds no day at all waits until the transaction that makes the day has ended, and a host's
-- transaction may take minutes.
create function business_api.make_days_ahead() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '10ms'
as $$
begin
  -- "days" in ASCII.
  if pg_try_advisory_xact_lock(1684109683) then
    perform business_api.make_days();
  end if;
exception
  -- A vacuum by hand, a purge or a migration is under way.
  when lock_not_available or deadlock_detected then null;
end
$$;

-- The publishers of the running version go on until the grants of this version are run.
revoke execute on function business_api.make_days_ahead() from public;
do $$
declare
  role text;
begin
  for role in
    select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
      from pg_catalog.pg_proc p cross join lateral aclexplode(p.proacl) as a
     where p.oid = 'business_api.make_days()'::regprocedure and a.grantee <> p.proowner
  loop
    execute format('grant execute on function business_api.make_days_ahead() to %s', role);
  end loop;
end
$$;

-- The tables of the first day are reached through the parents only, as the tables of all other days: see make_day.
do $$
declare
  parent text;
  role text;
begin
  foreach parent in array array['events', 'finished_deliveries', 'delivery_attempts'] loop
    continue when to_regclass('business_api.' || parent || '_first') is null;
    execute format('alter table business_api.%I enable row level security', parent || '_first');
    for role in
      select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
        from pg_catalog.pg_class c
        cross join lateral (
          select e.grantee from aclexplode(c.relacl) as e
          union all
          select e.grantee from pg_catalog.pg_attribute t cross join lateral aclexplode(t.attacl) as e where t.attrelid = c.oid
        ) as a
       where c.oid = format('business_api.%I', parent || '_first')::regclass and a.grantee <> c.relowner
    loop
      execute format('revoke all on business_api.%I from %s', parent || '_first', role);
    end loop;
  end loop;
end
$$;
