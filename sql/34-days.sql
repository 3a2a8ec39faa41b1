-- Days: events, finished deliveries and attempts are stored in partitions by day, and an old day is dropped as a whole. Delivery ids
-- begin with the publishing time (see delivery_digits), and so does an event's delivery_prefix: a day's bounds are such strings, and no
-- table needs a column for the day. Open deliveries are not partitioned.

-- The functions of this file run with the privileges of the schema's owner, or are called by such functions. With an empty
-- search_path PostgreSQL looks for the names of types among the caller's temporary objects first, and a caller's domain `text` would
-- run the caller's code as the owner: so pg_temp comes last.

-- Returns the text with which the ids of all deliveries from a moment on begin: `dlv_` and the milliseconds, ten digits of a ULID. A
-- moment before 1970 is the first that an id can have.
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

-- Returns the moment in a record's id, `<kind>_<ulid>`; null for an id of another form, as imported records may have.
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

-- Returns the moment of publishing, to the millisecond, with which an event's delivery_prefix begins.
create function business_api.published_at(delivery_prefix text) returns timestamptz
language sql immutable
set search_path = ''
as $$
  select business_api.id_time(rpad(delivery_prefix, 30, '0'))
$$;

-- Makes the digits that all delivery ids of one call begin with, in the application's format: `dlv_`, 48 bits for milliseconds, ten for
-- microseconds, twenty random bits. The other ten digits are the event's number in the call and the endpoint's number, in hexadecimal,
-- which are ULID digits too: calling new_id for each delivery took longer than everything else. So the ids have the order in which the
-- events were inserted.
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

-- The days. A day has tables for events, finished deliveries and attempts, whose names end with the day's name.
create table business_api.event_days (
  organization_id text collate "C" not null default '',
  -- The ids of the day's deliveries are at least `begins`, and below `ends`.
  begins text collate "C" not null,
  ends text collate "C" not null,
  begins_at timestamptz not null,
  ends_at timestamptz not null,
  name text not null,
  -- Time of the latest attempt to drop the day.
  checked_at timestamptz,
  -- The oldest open delivery that was found in the day, as JSON: the day is retained for it. Null if none was found.
  retained_for jsonb,
  -- The tables are gone; the row stays until the day's event_ids are deleted.
  dropped_at timestamptz,
  constraint event_days_pkey primary key (organization_id, begins),
  constraint event_days_organization_id_check check (organization_id = '')
);

-- Computes the number of days that a new partition spans: a thirtieth of the retention, so about forty partitions exist.
-- Each statement that cannot leave partitions out locks all of them.
create function business_api.day_width(retention_ms double precision) returns integer
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
    -- Longer than any retention of a host: a loop that keeps all events.
    when retention_ms >= 500 * 365 * 86400000.0 then 30
    else greatest(1, ceil(retention_ms / 30 / 86400000))::integer
  end
$$;

-- Computes how long after the retention, in ms, a purge stops waiting for an event's day to end: events in a retained day are then
-- deleted row by row.
create function business_api.day_grace_ms(retention_ms double precision) returns double precision
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select (business_api.day_width(retention_ms) + 1.5) * 86400000
$$;

-- Computes until when there is a day for every moment from a moment on; the moment itself if no day holds it. A clock that was ahead
-- leaves later days behind, with a gap before.
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

-- Finds attached day tables whose row in event_days is missing or has different bounds after a manual change. The bounds of the table
-- count, because the width of new days may have changed since.
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

-- Makes a day, or the parts that are missing after a table was dropped or detached, or the day's row deleted. Functions of the
-- catalogue tell what is there, because a host's transaction that is repeatable read does not see the rows of a day that another
-- transaction has made since.
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
    -- Without a policy: rows are reached through the parent, with the parent's policies, also where the host grants new tables by
    -- default.
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
    -- Row level security that is forced on the owner hides the days.
    when insufficient_privilege then null;
  end;
end
$$;

-- Makes the days that are missing between two moments. The lock conflicts only with other makers of days and vacuums. A new table is
-- empty, so attaching reads nothing. Days whose rows were deleted or changed are repaired first; otherwise a new day could overlap a
-- table.
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

-- Makes the days up to seven days ahead, with the privileges of the schema's owner. A purge makes days in time; a publisher that
-- finds no day for its event makes the days too, so publishing never depends on a loop.
create function business_api.make_days() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  at_time timestamptz := clock_timestamp();
  -- A publisher may have read the clock a little earlier.
  here timestamptz := at_time - interval '1 hour';
begin
  -- A publisher that can't see the days (row level security) asks each time, and must not wait for other publishers.
  if business_api.days_end(here) < at_time + interval '144 hours' then
    perform business_api.make_days_between(here, at_time + interval '168 hours');
  end if;
end
$$;
revoke execute on function business_api.make_days() from public;

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
revoke execute on function business_api.make_days_ahead() from public;

-- Makes sure that the present day has its tables, and tries to make those of the next days two days ahead of time, because the host's
-- transaction that makes the tables may stay open for hours. A session that knows of the present day's tables does not ask again
-- between day_known_from and day_known_until, ten minutes later or the end of the day: texts that are compared with the ids of
-- deliveries. A clock that goes back makes the session ask again.
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
