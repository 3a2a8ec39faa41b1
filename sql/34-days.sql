-- Events, finished deliveries and attempts are partitioned by day, so an old day can be dropped as a whole. No table
-- needs a column for the day, because delivery IDs and events' delivery_prefix start with the publishing time (see
-- delivery_digits), which also makes them usable as bounds. Open deliveries aren't partitioned.

-- The functions in this file run with the schema owner's privileges or are called by functions that do. With an empty
-- search_path, PostgreSQL would look up type names among the caller's temporary objects first, and a domain named
-- `text` could run the caller's code as the owner. That's why pg_temp comes last.

-- Returns the prefix of the first delivery ID at a given time: `dlv_` and the milliseconds as ten ULID digits. Returns
-- the lowest possible prefix for a time before 1970.
create function business_api.day_bound(at_time timestamptz) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select 'dlv_' || string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', digit + 1, 1), '' order by place)
    from (
      select place, ((greatest(floor(extract(epoch from at_time) * 1000), 0)::bigint >> (45 - 5 * place)) & 31)::int as digit
        from generate_series(0, 9) as place
    ) as digits
$$;

-- Returns the time in a record's ID (`<kind>_<ulid>`), or null for another format, which imported records may have.
create function business_api.id_time(id text) returns timestamptz
language sql immutable
set search_path = ''
as $$
  select case when id ~ '_[0-7][0-9A-HJKMNP-TV-Z]{25}$' then to_timestamp((
    select sum(
      (strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(right(id, 26), place, 1)) - 1)::bigint << (5 * (10 - place))
    ) from generate_series(1, 10) as place
  ) / 1000.0) end
$$;

-- Returns the publishing time at the start of an event's delivery_prefix, with millisecond precision.
create function business_api.published_at(delivery_prefix text) returns timestamptz
language sql immutable
set search_path = ''
as $$
  select business_api.id_time(rpad(delivery_prefix, 30, '0'))
$$;

-- Returns the prefix of all delivery IDs of a call, in the same format that the application uses: `dlv_`, 48 bits for
-- the milliseconds, ten for the microseconds and twenty random bits. The remaining ten digits are the event's number
-- within the call and the endpoint's number, both in hexadecimal, which is valid in a ULID. Calling new_id for each
-- delivery took longer than everything else. IDs are also in insertion order this way.
create function business_api.delivery_digits(at_time timestamptz) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  alphabet constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  microseconds bigint := floor(extract(epoch from at_time) * 1000000)::bigint;
  time_bits bigint := ((microseconds / 1000) << 10) | (microseconds % 1000);
  random_bytes bytea := uuid_send(gen_random_uuid());
  digits text := 'dlv_';
begin
  for place in 0 .. 11 loop
    digits := digits || substr(alphabet, ((time_bits >> (55 - 5 * place)) & 31)::int + 1, 1);
  end loop;
  for place in 0 .. 3 loop
    digits := digits || substr(alphabet, (get_byte(random_bytes, place) & 31) + 1, 1);
  end loop;
  return digits;
end
$$;

-- The days. Each has a table for events, finished deliveries and attempts, with the day's name as a suffix.
create table business_api.event_days (
  organization_id text collate "C" not null default '',
  -- The day's delivery IDs are at least `begins` and below `ends`.
  begins text collate "C" not null,
  ends text collate "C" not null,
  begins_at timestamptz not null,
  ends_at timestamptz not null,
  name text not null,
  -- When we last tried to drop the day.
  checked_at timestamptz,
  -- The oldest open delivery that keeps the day from being dropped, as JSON. Null if none was found.
  retained_for jsonb,
  -- When the tables were dropped. The row is kept until the day's event_ids have been deleted.
  dropped_at timestamptz,
  constraint event_days_pkey primary key (organization_id, begins),
  constraint event_days_organization_id_check check (organization_id = '')
);

-- Returns how many days a new partition spans. A thirtieth of the retention results in about forty partitions. More
-- would be a problem, because a statement that can't exclude partitions locks all of them.
create function business_api.day_width(retention_ms double precision) returns integer
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
    -- Longer than any actual retention, so this loop keeps all events.
    when retention_ms >= 500 * 365 * 86400000.0 then 30
    else greatest(1, ceil(retention_ms / 30 / 86400000))::integer
  end
$$;

-- Returns how long after the retention a purge waits to drop an event's day before deleting it row by row, in ms.
create function business_api.day_grace_ms(retention_ms double precision) returns double precision
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select (business_api.day_width(retention_ms) + 1.5) * 86400000
$$;

-- Returns the end of the days that exist without a gap from the given time on, or that time if it has no day. There may
-- be later days after a gap if the clock was ahead once.
create function business_api.days_end(at_time timestamptz) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  here timestamptz := at_time;
  next_at timestamptz;
begin
  loop
    select max(d.ends_at) into next_at from business_api.event_days d
     where d.organization_id = '' and d.begins_at <= here and d.ends_at > here and d.dropped_at is null;
    exit when next_at is null or here >= at_time + interval '168 hours';
    here := next_at;
  end loop;
  return here;
end
$$;

-- Finds attached partitions without a matching row in event_days, because someone has deleted or changed it. Returns
-- the table's bounds, since the width of new days may have changed.
create function business_api.unlisted_days() returns table (name text, begins_at timestamptz, ends_at timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  attached record;
begin
  for attached in
    select distinct substr(c.relname::text, length(p.parent) + 2) as day_name, b.begins, b.ends
      from unnest(array['events', 'finished_deliveries', 'delivery_attempts']) as p (parent)
      join pg_inherits i on i.inhparent = to_regclass('business_api.' || p.parent)
      join pg_class c on c.oid = i.inhrelid
      cross join lateral pg_get_expr(c.relpartbound, c.oid) as e (bounds)
      cross join lateral (
        select substring(e.bounds from 'FROM [(]''(dlv_.{10})''') as begins,
               substring(e.bounds from 'TO [(]''(dlv_.{10})''') as ends
      ) as b
     where starts_with(c.relname::text, p.parent || '_') and b.begins is not null and b.ends is not null
     order by b.begins
  loop
    continue when exists (
      select 1 from business_api.event_days d
       where d.organization_id = '' and d.begins = attached.begins and d.ends = attached.ends and d.dropped_at is null
    );
    name := attached.day_name;
    begins_at := business_api.published_at(attached.begins);
    ends_at := business_api.published_at(attached.ends);
    return next;
  end loop;
end
$$;

-- Creates a day, or the missing part if a table was dropped or detached or the day's row was deleted. Uses catalog
-- functions to find out what exists, because a host's repeatable read transaction doesn't see rows of a day that
-- another transaction has created since.
create function business_api.make_day(name text, begins_at timestamptz, ends_at timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  first_id text := business_api.day_bound($2);
  end_id text := business_api.day_bound($3);
  parent text;
begin
  foreach parent in array array['events', 'finished_deliveries', 'delivery_attempts'] loop
    continue when pg_partition_root(to_regclass('business_api.' || parent || '_' || $1)) = ('business_api.' || parent)::regclass;
    if to_regclass('business_api.' || parent || '_' || $1) is null then
      execute format(
        'create table business_api.%I (like business_api.%I including all)
           with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02)',
        parent || '_' || $1, parent
      );
    end if;
    -- No policy is needed, because rows are accessed through the parent table and its policies. This also protects the
    -- table if the host grants privileges on new tables by default.
    execute format('alter table business_api.%I enable row level security', parent || '_' || $1);
    execute format(
      'alter table business_api.%I attach partition business_api.%I for values from (%L) to (%L)',
      parent, parent || '_' || $1, first_id, end_id
    );
  end loop;
  begin
    insert into business_api.event_days as d (begins, ends, begins_at, ends_at, name)
    values (first_id, end_id, $2, $3, $1)
    on conflict on constraint event_days_pkey do update
      set ends = excluded.ends, ends_at = excluded.ends_at, checked_at = null, retained_for = null, dropped_at = null;
  exception
    -- Another transaction has written the row, and this one is repeatable read.
    when serialization_failure then null;
    -- Row-level security is forced on the owner and hides the days.
    when insufficient_privilege then null;
  end;
end
$$;

-- Creates the missing days between two times. The lock only conflicts with vacuums and other calls that create days.
-- Attaching an empty table doesn't scan anything. Days whose row was deleted or changed are repaired first, because
-- otherwise a new day could overlap with an existing table.
create function business_api.make_days_between(begins_at timestamptz, ends_at timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  here timestamptz := begins_at;
  width integer;
  unlisted record;
  next_at timestamptz;
  day_begins_at timestamptz;
  day_ends_at timestamptz;
  day_name text;
begin
  lock table only business_api.events, only business_api.finished_deliveries, only business_api.delivery_attempts
    in share update exclusive mode;
  for unlisted in select u.* from business_api.unlisted_days() as u loop
    perform business_api.make_day(unlisted.name, unlisted.begins_at, unlisted.ends_at);
  end loop;
  width := business_api.day_width(
    coalesce((select p.retention_ms from business_api.purge_progress p where p.organization_id = ''), 2592000000)
  );
  while here < $2 loop
    select max(d.ends_at) filter (where d.begins <= business_api.day_bound(here) and d.ends > business_api.day_bound(here)),
           max(d.ends_at) filter (where d.ends_at <= here),
           min(d.begins_at) filter (where d.begins_at > here)
      into next_at, day_begins_at, day_ends_at
      from business_api.event_days d where d.organization_id = '' and d.dropped_at is null;
    if next_at is null then
      day_begins_at := greatest(day_begins_at, date_trunc('day', here, 'UTC'));
      day_ends_at := least(day_ends_at, day_begins_at + width * interval '24 hours');
      day_name := to_char(day_begins_at at time zone 'UTC', 'YYYYMMDD');
      perform business_api.make_day(day_name, day_begins_at, day_ends_at);
      next_at := day_ends_at;
    end if;
    here := next_at;
  end loop;
end
$$;

-- Creates the days up to seven days ahead, with the schema owner's privileges. Normally a purge creates them in time,
-- but a publisher with no day for its event does too, so publishing never depends on a loop.
create function business_api.make_days() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  at_time timestamptz := clock_timestamp();
  -- A publisher may have read the clock slightly earlier.
  here timestamptz := at_time - interval '1 hour';
begin
  -- A publisher that can't see the days because of row-level security calls this every time and must not wait.
  if business_api.days_end(here) < at_time + interval '144 hours' then
    perform business_api.make_days_between(here, at_time + interval '168 hours');
  end if;
end
$$;
revoke execute on function business_api.make_days() from public;

-- Lets a publisher create days ahead of time if no loop does. The first publisher within the last two days creates the
-- next days without blocking the rest. If there's no day at all, however, publishers have to wait for the transaction
-- that creates the day. In a host's transaction, that may take minutes.
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
  -- A manual vacuum, a purge or a migration is running.
  when lock_not_available or deadlock_detected then null;
end
$$;
revoke execute on function business_api.make_days_ahead() from public;

-- Makes sure that the current day has its tables, and tries to create the next ones two days ahead, which is early
-- because a host's transaction that creates tables may stay open for hours. Once a session knows that the current day
-- exists, it doesn't check again between day_known_from and day_known_until, which is at most ten minutes later or the
-- end of the day. Both are compared with delivery IDs as strings. If the clock is set back, the session checks again.
create function business_api.ensure_day(at_time timestamptz) returns void
language plpgsql volatile
set search_path = ''
as $$
declare
  digits text collate "C" := business_api.delivery_digits(at_time);
  day record;
begin
  select d.ends into day from business_api.event_days d
   where d.organization_id = '' and d.begins <= digits and d.ends > digits and d.dropped_at is null;
  if not found then
    perform business_api.make_days();
    return;
  end if;
  if business_api.days_end(at_time) < at_time + interval '48 hours' then
    perform business_api.make_days_ahead();
  end if;
  perform set_config('business_api.day_known_from', digits, false);
  perform set_config(
    'business_api.day_known_until', least(day.ends, business_api.delivery_digits(at_time + interval '10 minutes') collate "C"), false
  );
end
$$;
