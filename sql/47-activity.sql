-- The number of deliveries and attempts that ended, by endpoint and the hour in which the delivery was created. The
-- delivery log is ordered and filtered by creation, so it finds the deliveries that an hour counts without an index by
-- another time. The statement that logs attempts also counts them, so the totals match the log. For the rules, see
-- lib/delivery/README.md. Rows are kept for 35 days, which is longer than most hosts keep their log.

-- An endpoint's counters for an hour. The slot is the counting server process modulo 8, so two loops that write an
-- endpoint's results at the same time rarely use the same row and don't have to wait for each other's commit. Loops
-- prefer the connection that was used last, so a quiet endpoint has only one or two rows per hour. Slot 8 has negative
-- counts, which cancel out those of resent deliveries (see reopen_deliveries), so recoveries never block results.
create table business_api.endpoint_activity (
  organization_id text collate "C" not null,
  -- Start of the hour in which the deliveries were created.
  hour timestamptz not null,
  endpoint_id text collate "C" not null,
  slot smallint not null,
  -- In the order of COUNTERS in lib/webhooks/activity.ts. The counters that change most are adjacent, because the WAL
  -- has all bytes between the first and the last changed counter.
  counts integer[] not null,
  constraint endpoint_activity_pkey primary key (organization_id, hour, endpoint_id, slot)
-- With half-empty pages, updates are HOT (heap-only), so indexes don't change and dead rows don't need a vacuum.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- For the purge.
create index endpoint_activity_hour_idx on business_api.endpoint_activity (hour);

-- Counts finished attempts, and the deliveries that ended with them. Rows are written in key order so calls can't
-- deadlock.
create function business_api.count_activity(attempts business_api.ended_attempt[]) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
begin
  insert into business_api.endpoint_activity as present (organization_id, hour, endpoint_id, slot, counts)
  select e.organization_id, e.hour, e.endpoint_id, pg_backend_pid() % 8,
         array(select cardinality(array_positions(e.places, place)) from generate_series(1, 24) as place)
    from (
      select a.organization_id collate "C" as organization_id, a.endpoint_id collate "C" as endpoint_id,
             date_trunc('hour', a.created_at, 'UTC') as hour,
             array_agg(case a.outcome when 'failed' then 1 when 'delivered' then 12 end)
             || array_agg(case
               when a.status between 200 and 599 then 13 - a.status / 100
               when a.status is not null then 2
               when a.error = 'timeout' then 7
               when a.error = 'dns_failed' or starts_with(a.error, 'connection_') then 6
               when starts_with(a.error, 'tls_') then 5
               when a.error = 'destination_not_allowed' then 4
               when a.error = 'interrupted' then 3
               else 2
             end)
             || array_agg(case when a.status is not null then
               13 + width_bucket(a.duration_ms, '{8,16,32,64,128,256,512,1024,2048,4096,8192}'::real[])
             end) as places
        from unnest(attempts) as a
       group by 1, 2, 3
    ) as e
   order by e.organization_id, e.hour, e.endpoint_id
  on conflict on constraint endpoint_activity_pkey do update set
    counts = array(select c.one + c.other from unnest(present.counts, excluded.counts) as c (one, other));
end
$$;
select business_api.forbid_plans('count_activity');

-- Returns an organization's activity as JSON. See ActivityRequest. `endpoint_id` may be null. Reads a primary key range
-- of up to 35 days for the organization's endpoints, no matter how many deliveries they had.
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
             array[
               sum(a.counts[1]), sum(a.counts[2]), sum(a.counts[3]), sum(a.counts[4]), sum(a.counts[5]), sum(a.counts[6]),
               sum(a.counts[7]), sum(a.counts[8]), sum(a.counts[9]), sum(a.counts[10]), sum(a.counts[11]), sum(a.counts[12]),
               sum(a.counts[13]), sum(a.counts[14]), sum(a.counts[15]), sum(a.counts[16]), sum(a.counts[17]), sum(a.counts[18]),
               sum(a.counts[19]), sum(a.counts[20]), sum(a.counts[21]), sum(a.counts[22]), sum(a.counts[23]), sum(a.counts[24])
             ] as counts
        from business_api.endpoint_activity a
       where a.organization_id = $1 and a.hour >= $3 and a.hour < $4 and ($2 is null or a.endpoint_id = $2)
       group by grouping sets (
         (date_trunc($5, a.hour, 'UTC')), (a.endpoint_id), (date_trunc($5, a.hour, 'UTC'), a.endpoint_id)
       )
    ), ended as materialized (
      select s.endpoint_id, json_agg(json_build_object(
               'at', to_char(s.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'delivered', s.counts[12], 'failed', s.counts[1]
             ) order by s.at) as series
        from summed s
       where s.at is not null and s.endpoint_id is not null and s.counts[12] + s.counts[1] > 0
       group by s.endpoint_id
    )
    select json_build_object(
      'series', (
        select coalesce(json_agg(json_build_object(
                 'at', to_char(s.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'counts', s.counts
               ) order by s.at), '[]')
          from summed s where s.at is not null and s.endpoint_id is null
      ),
      'endpoints', (
        select coalesce(json_agg(json_build_object(
                 'endpointId', e.id, 'url', e.url, 'description', e.description, 'state', e.state, 'failures', e.failures,
                 'counts', coalesce(s.counts, '{}'), 'series', coalesce(ended.series, '[]')
               ) order by e.id desc), '[]')
          from business_api.webhook_endpoints e
          left join summed s on s.endpoint_id = e.id and s.at is null
          left join ended on ended.endpoint_id = e.id
         where e.organization_id = $1 and ($2 is null or e.id = $2) and (e.state <> 'removed' or s.endpoint_id is not null)
      ),
      'apiKeysInUse', (
        select count(*) from business_api.api_keys k
         where k.organization_id = $1 and k.last_used_at >= $3
           and (k.revoked_at is null or k.revoked_at > now()) and (k.expires_at is null or k.expires_at > now())
      ),
      'queue', business_api.count_queue($1, $2, 10000)::json
    )::text
  );
end
$$;

-- Deletes activity older than 35 days, up to a limit. Returns the number of deleted rows.
create function business_api.purge_activity(row_limit integer) returns integer
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  purged integer;
begin
  delete from business_api.endpoint_activity a
   where a.ctid = any (array(
       select o.ctid from business_api.endpoint_activity o
        where o.hour < now() - interval '35 days'
        -- Slot 8 first, so that what is left of an hour is never below zero.
        order by o.hour, o.slot desc
        limit row_limit
          for update skip locked
     ));
  get diagnostics purged = row_count;
  return purged;
end
$$;
select business_api.forbid_plans('purge_activity');
