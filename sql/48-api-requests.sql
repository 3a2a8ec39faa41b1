-- The log of API requests. See lib/access/request-log.ts. The tables are unlogged, so they don't write WAL, are empty
-- after a crash, and can't be read on a standby. There's one table per day, by day number modulo 9: seven full days,
-- today, and one emptied by purge_api_requests. Tables are truncated as a whole, so there's nothing to vacuum.
create table business_api.api_requests (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  day smallint not null,
  at timestamptz not null,
  key_id text collate "C" not null,
  method text not null,
  route text not null,
  path text not null,
  status smallint not null,
  duration_ms real not null,
  error text,
  is_replay boolean not null,
  constraint api_requests_pkey primary key (organization_id, id, day)
) partition by list (day);

create index api_requests_at_idx on business_api.api_requests (organization_id, at, id);

do $$
begin
  for day in 0 .. 8 loop
    execute format(
      'create unlogged table business_api.api_requests_%1$s partition of business_api.api_requests for values in (%1$s)
         with (autovacuum_enabled = off)', day
    );
  end loop;
end
$$;

-- Converts a JSON array of RequestRecord to log rows, omitting requests with an unknown key. Has no settings so that
-- it's inlined.
create function business_api.read_api_requests(requests json) returns setof business_api.api_requests
language sql stable
as $$
  select k.organization_id, r.id, ((arrival.at at time zone 'UTC')::date - '1970-01-01') % 9, arrival.at, k.id, r.method, r.route,
         r.path, r.status, r."durationMs", r.error, r."isReplay"
    from json_to_recordset(requests) as r (
      id text, at timestamptz, "keyDigest" text, "organizationId" text, method text, route text, path text, status smallint,
      "durationMs" real, error text, "isReplay" boolean
    )
    -- Avoids the day that is about to be emptied, even if the process's clock is wrong.
    cross join lateral (select greatest(least(r.at, now()), now() - interval '1 day') as at) as arrival
    cross join lateral (
      select f.organization_id, f.id from business_api.api_keys f
       where f.digest = r."keyDigest" and f.organization_id = coalesce(r."organizationId", f.organization_id)
         and (
           select p.is_here from business_api.shard_places p
            where p.organization_id = f.organization_id order by p.version desc limit 1
         ) is not false
       limit 1
    ) as k
$$;

-- Logs requests. `on conflict` would take a quarter of the time, so it's only used when a batch is being retried.
create function business_api.log_api_requests(requests json) returns json
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
begin
  begin
    insert into business_api.api_requests select * from business_api.read_api_requests(requests);
  exception
    when unique_violation then
      insert into business_api.api_requests select * from business_api.read_api_requests(requests) on conflict do nothing;
  end;
  return null;
end
$$;
select business_api.forbid_plans('log_api_requests');

-- Lists requests as JSON, latest first. `filter` is a RequestFilter, or has a single request's `id`.
create function business_api.list_api_requests(organization_id text, filter jsonb, page_limit integer, before text) returns json
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  first_id text := coalesce(filter ->> 'id', before);
  first_at timestamptz := 'infinity';
  inspected_max integer := case when filter ?| array['keyId', 'status'] then 5000 else page_limit + 2 end;
begin
  if first_id is not null then
    select r.at into first_at from business_api.api_requests r where r.organization_id = $1 and r.id = first_id limit 1;
    if not found then
      return '{"data": [], "next": null}';
    end if;
  end if;
  -- A single upper bound for the start of the index scan. A second one would only be checked as a condition.
  if (filter ->> 'until')::timestamptz <= first_at then
    first_at := filter ->> 'until';
    first_id := '';
  end if;
  return (
    with inspected as materialized (
      select * from business_api.api_requests r
       where r.organization_id = $1 and (r.at, r.id) <= (first_at, coalesce(first_id, '~'))
         -- A table that wasn't purged in time may have older requests.
         and r.at >= greatest((filter ->> 'since')::timestamptz, now() - interval '8 days')
       order by r.at desc, r.id desc
       limit inspected_max
    ), chosen as materialized (
      select i.*, row_number() over (order by i.at desc, i.id desc) as place from inspected i
       where i.id is distinct from before
         and i.key_id = coalesce(filter ->> 'keyId', i.key_id)
         and i.status / 100 = coalesce(left(filter ->> 'status', 1)::integer, i.status / 100)
    )
    select json_build_object(
      'data', coalesce(json_agg(json_build_object(
        'id', c.id, 'at', to_char(c.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'keyId', c.key_id,
        'keyName', (select k.name from business_api.api_keys k where k.organization_id = $1 and k.id = c.key_id), 'method', c.method,
        'route', c.route, 'path', c.path, 'status', c.status, 'durationMs', c.duration_ms, 'error', c.error, 'isReplay', c.is_replay
      ) order by c.place), '[]'),
      'next', case
        when (select max(f.place) from chosen f) > page_limit then max(c.id) filter (where c.place = page_limit)
        when (select count(*) from inspected) = inspected_max then (select i.id from inspected i order by i.at, i.id limit 1)
      end
    )
      from chosen c where c.place <= page_limit
  );
end
$$;
select business_api.forbid_plans('list_api_requests', 'enable_sort');

-- Empties tomorrow's table, which has requests from eight days ago. Runs as the owner because truncating requires that.
create function business_api.purge_api_requests() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- Listing requests briefly locks all the tables. After a timeout, the next part of the purge tries again.
set lock_timeout = '100ms'
as $$
declare
  old_table text := format('business_api.api_requests_%s', (floor(extract(epoch from now()) / 86400)::bigint + 1) % 9);
begin
  if pg_relation_size(old_table) > 0 then
    execute format('truncate %s', old_table);
  end if;
exception
  when lock_not_available then
    return;
end
$$;
