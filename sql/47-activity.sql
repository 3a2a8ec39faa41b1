-- Activity: how many deliveries and attempts ended, by endpoint and hour. The statement that logs attempts counts them, so the sums are
-- those of the log. lib/delivery/README.md says what counts. Rows are kept for 35 days, longer than the log of most hosts.

-- The counters of an endpoint and an hour. The slot is the server process (backend) that counted, modulo 8: two loops that write results
-- of the same endpoint at the same moment rarely share a row, so neither waits for the other's commit. A loop takes the connection that
-- was used last, so a quiet endpoint has a row or two for each hour.
create table business_api.endpoint_activity (
  organization_id text collate "C" not null,
  -- Beginning of the hour in which the attempts began.
  hour timestamptz not null,
  endpoint_id text collate "C" not null,
  slot smallint not null,
  -- Deliveries.
  failed integer not null,
  -- Attempts by class of result. The counters that change most stand together and last: the write-ahead log holds only the bytes from
  -- the first changed counter to the last.
  status_3xx integer not null,
  status_4xx integer not null,
  status_5xx integer not null,
  timeout integer not null,
  connection integer not null,
  tls integer not null,
  not_allowed integer not null,
  interrupted integer not null,
  other integer not null,
  status_2xx integer not null,
  -- Deliveries.
  delivered integer not null,
  -- Attempts with a response, by duration: below 8 ms, below 16 ms, and so on, the last from 8192 ms on.
  below_8ms integer not null,
  below_16ms integer not null,
  below_32ms integer not null,
  below_64ms integer not null,
  below_128ms integer not null,
  below_256ms integer not null,
  below_512ms integer not null,
  below_1024ms integer not null,
  below_2048ms integer not null,
  below_4096ms integer not null,
  below_8192ms integer not null,
  from_8192ms integer not null,
  constraint endpoint_activity_pkey primary key (organization_id, hour, endpoint_id, slot)
-- Half empty pages, so that updates are HOT (heap-only): no index changes, and dead rows go without a vacuum.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- For the purge.
create index endpoint_activity_hour_idx on business_api.endpoint_activity (hour);

-- Counts attempts that ended, and the deliveries that ended with them. Rows are written in the order of their key, so that no two calls
-- wait for each other. A delivery that was delivered in an earlier round counts neither as delivered nor as failed again.
create function business_api.count_activity(attempts business_api.ended_attempt[]) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  resent record;
begin
  -- Only redelivered deliveries are looked up: a statement over the log opens all days.
  for resent in
    select * from unnest(attempts) with ordinality as a
     where a.attempts_before > 0 and a.outcome <> 'retry'
  loop
    perform 1 from business_api.delivery_attempts l
      where l.organization_id = resent.organization_id and l.delivery_id = resent.delivery_id
        and l.number <= resent.attempts_before and l.status between 200 and 299
      limit 1;
    if found then
      attempts[resent.ordinality].outcome := 'retry';
    end if;
  end loop;

  insert into business_api.endpoint_activity as present (
    organization_id, hour, endpoint_id, slot, failed, status_3xx, status_4xx, status_5xx, timeout, connection, tls, not_allowed,
    interrupted, other, status_2xx, delivered, below_8ms, below_16ms, below_32ms, below_64ms, below_128ms, below_256ms, below_512ms,
    below_1024ms, below_2048ms, below_4096ms, below_8192ms, from_8192ms
  )
  select e.organization_id, e.hour, e.endpoint_id, pg_backend_pid() % 8,
         count(*) filter (where e.outcome = 'failed'),
         count(*) filter (where e.class = 3), count(*) filter (where e.class = 4), count(*) filter (where e.class = 5),
         count(*) filter (where e.class = 10), count(*) filter (where e.class = 11), count(*) filter (where e.class = 12),
         count(*) filter (where e.class = 13), count(*) filter (where e.class = 14), count(*) filter (where e.class = 15),
         count(*) filter (where e.class = 2),
         count(*) filter (where e.outcome = 'delivered'),
         count(*) filter (where e.bucket = 0), count(*) filter (where e.bucket = 1), count(*) filter (where e.bucket = 2),
         count(*) filter (where e.bucket = 3), count(*) filter (where e.bucket = 4), count(*) filter (where e.bucket = 5),
         count(*) filter (where e.bucket = 6), count(*) filter (where e.bucket = 7), count(*) filter (where e.bucket = 8),
         count(*) filter (where e.bucket = 9), count(*) filter (where e.bucket = 10), count(*) filter (where e.bucket = 11)
    from (
      select a.organization_id collate "C" as organization_id, a.endpoint_id collate "C" as endpoint_id,
             date_trunc('hour', a.started_at, 'UTC') as hour, a.outcome,
             case
               when a.status between 200 and 599 then a.status / 100
               when a.status is not null then 15
               when a.error = 'timeout' then 10
               when a.error = 'dns_failed' or starts_with(a.error, 'connection_') then 11
               when starts_with(a.error, 'tls_') then 12
               when a.error = 'destination_not_allowed' then 13
               when a.error = 'interrupted' then 14
               else 15
             end as class,
             case when a.status is not null then
               width_bucket(a.duration_ms, '{8,16,32,64,128,256,512,1024,2048,4096,8192}'::real[])
             end as bucket
        from unnest(attempts) as a
    ) as e
   group by e.organization_id, e.hour, e.endpoint_id
   order by e.organization_id, e.hour, e.endpoint_id
  on conflict on constraint endpoint_activity_pkey do update set
    failed = present.failed + excluded.failed, status_3xx = present.status_3xx + excluded.status_3xx,
    status_4xx = present.status_4xx + excluded.status_4xx, status_5xx = present.status_5xx + excluded.status_5xx,
    timeout = present.timeout + excluded.timeout, connection = present.connection + excluded.connection,
    tls = present.tls + excluded.tls, not_allowed = present.not_allowed + excluded.not_allowed,
    interrupted = present.interrupted + excluded.interrupted, other = present.other + excluded.other,
    status_2xx = present.status_2xx + excluded.status_2xx, delivered = present.delivered + excluded.delivered,
    below_8ms = present.below_8ms + excluded.below_8ms, below_16ms = present.below_16ms + excluded.below_16ms,
    below_32ms = present.below_32ms + excluded.below_32ms, below_64ms = present.below_64ms + excluded.below_64ms,
    below_128ms = present.below_128ms + excluded.below_128ms, below_256ms = present.below_256ms + excluded.below_256ms,
    below_512ms = present.below_512ms + excluded.below_512ms, below_1024ms = present.below_1024ms + excluded.below_1024ms,
    below_2048ms = present.below_2048ms + excluded.below_2048ms, below_4096ms = present.below_4096ms + excluded.below_4096ms,
    below_8192ms = present.below_8192ms + excluded.below_8192ms, from_8192ms = present.from_8192ms + excluded.from_8192ms;
end
$$;
select business_api.forbid_plans('count_activity');

-- Reads the activity of an organization as JSON: see ActivityRequest in lib/webhooks/activity.ts. `endpoint_id` may be null.
-- A range of the primary key: at most 35 days of the organization's endpoints, however many deliveries these had.
create function business_api.read_activity(
  organization_id text, endpoint_id text, begins timestamptz, ends timestamptz, interval_name text
) returns text
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
begin
  return (
    with summed as materialized (
      select date_trunc($5, a.hour, 'UTC') as at, a.endpoint_id,
             sum(a.delivered) as delivered, sum(a.failed) as failed,
             array[
               sum(a.status_2xx), sum(a.status_3xx), sum(a.status_4xx), sum(a.status_5xx), sum(a.timeout), sum(a.connection),
               sum(a.tls), sum(a.not_allowed), sum(a.interrupted), sum(a.other)
             ] as classes,
             array[
               sum(a.below_8ms), sum(a.below_16ms), sum(a.below_32ms), sum(a.below_64ms), sum(a.below_128ms), sum(a.below_256ms),
               sum(a.below_512ms), sum(a.below_1024ms), sum(a.below_2048ms), sum(a.below_4096ms), sum(a.below_8192ms),
               sum(a.from_8192ms)
             ] as durations
        from business_api.endpoint_activity a
       where a.organization_id = $1 and a.hour >= $3 and a.hour < $4 and ($2 is null or a.endpoint_id = $2)
       group by grouping sets ((date_trunc($5, a.hour, 'UTC')), (a.endpoint_id))
    )
    select json_build_object(
      'series', (
        select coalesce(json_agg(json_build_object(
                 'at', to_char(s.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'delivered', s.delivered,
                 'failed', s.failed, 'classes', s.classes, 'durations', s.durations
               ) order by s.at), '[]')
          from summed s where s.at is not null
      ),
      'endpoints', (
        select coalesce(json_agg(json_build_object(
                 'endpointId', e.id, 'url', e.url, 'description', e.description, 'state', e.state, 'failures', e.failures,
                 'delivered', coalesce(s.delivered, 0), 'failed', coalesce(s.failed, 0),
                 'classes', coalesce(s.classes, array_fill(0::bigint, array[10])),
                 'durations', coalesce(s.durations, array_fill(0::bigint, array[12]))
               ) order by e.id desc), '[]')
          from business_api.webhook_endpoints e
          left join summed s on s.endpoint_id = e.id
         where e.organization_id = $1 and ($2 is null or e.id = $2) and (e.state <> 'removed' or s.endpoint_id is not null)
      ),
      'apiKeysInUse', (
        select count(*) from business_api.api_keys k
         where k.organization_id = $1 and k.last_used_at >= $3
           and (k.revoked_at is null or k.revoked_at > now()) and (k.expires_at is null or k.expires_at > now())
      )
    )::text
  );
end
$$;

-- Purges activity that is older than 35 days, up to a limit. Returns the number of rows.
create function business_api.purge_activity(row_limit integer) returns integer
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  purged integer;
begin
  with old as materialized (
    select a.organization_id, a.hour, a.endpoint_id, a.slot from business_api.endpoint_activity a
     where a.hour < now() - interval '35 days'
     order by a.hour
     limit row_limit
  )
  delete from business_api.endpoint_activity a using old
   where a.organization_id = old.organization_id and a.hour = old.hour and a.endpoint_id = old.endpoint_id and a.slot = old.slot;
  get diagnostics purged = row_count;
  return purged;
end
$$;
select business_api.forbid_plans('purge_activity');
