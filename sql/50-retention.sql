-- Retention. Old rows are deleted in batches, each of which resumes where the previous one stopped, so a batch costs
-- the same with a million deliveries as with ten million. Purge functions are replanned for each batch, which is
-- comparatively cheap. A plan made while the tables were empty might read all of an organization's deliveries for each
-- event.

-- The purge's progress, in a single row for the whole database. Each part locks the row, so only one process purges at
-- a time.
create table business_api.purge_progress (
  organization_id text collate "C" not null default '',
  -- Age at which the last part deleted events. Initially a delivery loop's default.
  retention_ms double precision not null default 2592000000,
  -- The first pass's position in events_delivery_prefix_idx and in the expiry of idempotency keys. It only starts over
  -- if this is beyond the old events, because the clock was ahead or the retention was increased.
  cursor jsonb not null default '{}',
  -- The second pass's position. It starts with the oldest event once per hour, and deletes removed endpoints and any
  -- events that the first pass couldn't. Null if no second pass is running.
  second_cursor jsonb,
  second_pass_at timestamptz not null default '-infinity',
  -- Earliest start of the next part. The purge takes a fixed share of the time, regardless of the number of processes.
  paused_until timestamptz not null default '-infinity',
  -- When the last part succeeded. Null if there hasn't been one.
  purged_at timestamptz,
  constraint purge_progress_pkey primary key (organization_id),
  constraint purge_progress_organization_id_check check (organization_id = '')
);

insert into business_api.purge_progress default values;

-- Deletes old events with their deliveries and attempts, starting at a place in events_delivery_prefix_idx. Events with
-- an open delivery are kept. All of an event's deliveries are locked before it's deleted, so a concurrent redelivery
-- keeps the event too. Returns a JSON object with the number of deleted events, the place of the last event that was
-- read, and isDone, which is true if there are no more old events. A manual purge adds its audit entry to each
-- organization that loses events.
create function business_api.purge_events(
  old_before timestamptz, place jsonb, event_limit integer, entry jsonb
) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  old_prefix text := business_api.day_bound(old_before);
  after_prefix text := coalesce(place ->> 'prefix', '');
  -- We read more events than we want to delete. A few events that are kept must not make a part smaller, and many of
  -- them must not end a small part.
  candidate_limit integer := greatest(event_limit + 100, 1000);
  -- Deliveries are limited as well, because an event may have many endpoints and a part must not take long.
  delivery_limit bigint := event_limit * 10;
  purged jsonb;
  next_place jsonb;
  candidates integer;
  inspections integer;
begin
  with candidate as materialized (
    select e.organization_id, e.id, e.delivery_prefix from business_api.events e
     where e.delivery_prefix < old_prefix and e.delivery_prefix > after_prefix
     order by e.delivery_prefix
     limit candidate_limit
  ), counted as materialized (
    select c.*, finished.total, open.is_any as is_unsent,
           row_number() over in_order as number,
           count(*) filter (where not open.is_any) over in_order as events_so_far,
           sum(finished.total) filter (where not open.is_any) over in_order as deliveries_so_far
      from candidate c, lateral (
        select count(*) as total from business_api.finished_deliveries d
         where d.organization_id = c.organization_id
           and d.id >= c.delivery_prefix and d.id < c.delivery_prefix || '~' and d.event_id = c.id
      ) as finished, lateral (
        select exists (
          select 1 from business_api.open_deliveries d
           where d.organization_id = c.organization_id
             and d.id >= c.delivery_prefix and d.id < c.delivery_prefix || '~' and d.event_id = c.id
        ) as is_any
      ) as open
    window in_order as (order by c.delivery_prefix rows unbounded preceding)
  ), inspected as materialized (
    select c.* from counted c
     where c.number = 1 or c.events_so_far <= event_limit and coalesce(c.deliveries_so_far, 0) <= delivery_limit
  ), old_event as materialized (
    select e.organization_id, e.id, e.delivery_prefix, i.total
      from inspected i
      join business_api.events e
        on e.organization_id = i.organization_id and e.id = i.id and e.delivery_prefix = i.delivery_prefix
     where not i.is_unsent
       for update of e skip locked
  ), finished_delivery as materialized (
    select d.organization_id, d.id, d.event_id, o.delivery_prefix, o.total
      from old_event o
      join business_api.finished_deliveries d
        on d.organization_id = o.organization_id
       and d.id >= o.delivery_prefix and d.id < o.delivery_prefix || '~' and d.event_id = o.id
       for update of d skip locked
  ), counted_again as materialized (
    -- Counts over the rows, because a join of two lists would compare every pair.
    select f.*, count(*) over (partition by f.organization_id, f.event_id) = f.total as is_whole from finished_delivery f
  ), purgeable as materialized (
    select distinct f.organization_id, f.event_id as id, f.delivery_prefix from counted_again f where f.is_whole
    union all
    select o.organization_id, o.id, o.delivery_prefix from old_event o where o.total = 0
  ), purged_delivery as (
    delete from business_api.finished_deliveries d using counted_again f
     where f.is_whole and d.organization_id = f.organization_id and d.id = f.id
    returning d.organization_id, d.id
  ), purged_attempt as (
    delete from business_api.delivery_attempts a using purged_delivery p
     where a.organization_id = p.organization_id and a.delivery_id = p.id
  ), purged_id as (
    delete from business_api.event_ids i using purgeable p
     where i.organization_id = p.organization_id and i.id = p.id and i.delivery_prefix = p.delivery_prefix
  ), purged_event as (
    delete from business_api.events e using purgeable p
     where e.organization_id = p.organization_id and e.id = p.id and e.delivery_prefix = p.delivery_prefix
    returning e.organization_id
  )
  select (
           select coalesce(jsonb_object_agg(o.organization_id, o.events), '{}')
             from (select p.organization_id, count(*) as events from purged_event p group by p.organization_id) as o
         ),
         (
           select jsonb_build_object('prefix', i.delivery_prefix)
             from inspected i order by i.number desc limit 1
         ),
         (select count(*) from candidate),
         (select count(*) from inspected)
    into purged, next_place, candidates, inspections;

  if entry is not null then
    perform business_api.count_in_entry(o.key, entry, 'events', o.value::bigint) from jsonb_each_text(purged) as o;
  end if;
  return jsonb_build_object(
    'events', (select coalesce(sum(o.value::bigint), 0) from jsonb_each_text(purged) as o),
    'place', coalesce(next_place, place),
    'isDone', candidates < candidate_limit and inspections = candidates
  );
end
$$;
select business_api.forbid_plans('purge_events');

-- Deletes removed endpoints without deliveries, starting at a place. Each one takes a few index lookups, and few
-- deliveries are being sent. Returns the place of the last endpoint that was read, or null if there are no more.
create function business_api.purge_removed_endpoints(place jsonb, endpoint_limit integer) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  inspections integer;
  next_place jsonb;
begin
  with removed as materialized (
    select e.organization_id, e.id from business_api.webhook_endpoints e
     where e.state = 'removed'
       and (e.organization_id, e.id) > (coalesce(place ->> 'organizationId', ''), coalesce(place ->> 'id', ''))
     order by e.organization_id, e.id
     limit endpoint_limit
  ), sending as materialized (
    select distinct d.organization_id, d.endpoint_id from business_api.open_deliveries d where d.lease_until is not null
  ), purgeable as materialized (
    -- Materialized before the join with the rows to delete, because the planner would run these searches inside a loop.
    select r.organization_id, r.id from removed r
     where not exists (
         select 1
           from unnest(array['delivered', 'failed', 'skipped', 'cancelled']) as final (state)
           cross join lateral (
             select 1 from business_api.finished_deliveries d
              where d.organization_id = r.organization_id and d.endpoint_id = r.id
                and d.state = final.state and d.state in ('delivered', 'failed', 'skipped', 'cancelled')
              limit 1
           ) as finished
       )
       and not exists (
         select 1 from business_api.open_deliveries d
          where d.organization_id = r.organization_id and d.endpoint_id = r.id
            and d.claim_token is null and not d.is_backing_off
       )
       and not exists (
         select 1 from business_api.open_deliveries d
          where d.organization_id = r.organization_id and d.endpoint_id = r.id
            and d.is_backing_off
       )
       and not exists (
         select 1 from sending f where f.organization_id = r.organization_id and f.endpoint_id = r.id
       )
  ), purged as (
    delete from business_api.webhook_endpoints e using purgeable p
     where e.organization_id = p.organization_id and e.id = p.id and e.state = 'removed'
  ), purged_rates as (
    delete from business_api.endpoint_rates r using purgeable p
     where r.organization_id = p.organization_id and r.endpoint_id = p.id
  )
  select count(*), (array_agg(jsonb_build_object('organizationId', r.organization_id, 'id', r.id)
                    order by r.organization_id desc, r.id desc))[1]
    into inspections, next_place
    from removed r;
  return case when inspections = endpoint_limit then next_place end;
end
$$;
select business_api.forbid_plans('purge_removed_endpoints');

-- Runs a part of a purge: events, idempotency keys and activity, then removed endpoints once no old events are left.
-- `cursor` is where the previous part stopped. Returns a JSON object with the counts, the next part's `cursor`, and
-- isDone, which is true after the last part.
create function business_api.purge_part(
  retention_ms double precision, cursor jsonb, part_limit integer, has_endpoints boolean, entry jsonb
) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
declare
  old_before timestamptz := now() - retention_ms * interval '1 millisecond';
  events jsonb := business_api.purge_events(old_before, cursor -> 'event', part_limit, entry);
  expired_from timestamptz := coalesce((cursor ->> 'expiry')::timestamptz, '-infinity');
  keys record;
  endpoint jsonb;
  is_done boolean := (events ->> 'isDone')::boolean;
  purged_activity integer := business_api.purge_activity(part_limit);
begin
  perform business_api.purge_api_requests();
  select k.purged, k.latest into keys from business_api.purge_idempotency_keys(expired_from, part_limit) as k;
  if is_done and has_endpoints then
    endpoint := business_api.purge_removed_endpoints(cursor -> 'endpoint', greatest(part_limit, 1000));
  end if;
  return jsonb_build_object(
    'events', events -> 'events',
    'idempotencyKeys', keys.purged,
    'cursor', jsonb_build_object('event', events -> 'place', 'expiry', keys.latest, 'endpoint', endpoint),
    'isDone', is_done and keys.purged < part_limit and purged_activity < part_limit and endpoint is null
  );
end
$$;

-- Returns how far a purge lags behind in milliseconds, i.e. how much older than the retention the first unreached event
-- is. An event isn't late as long as its day may still be dropped. A day that can't be dropped counts as late.
create function business_api.purge_lag(retention_ms double precision, cursor jsonb) returns double precision
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  oldest timestamptz;
begin
  select business_api.published_at(e.delivery_prefix) into oldest from business_api.events e
   where e.delivery_prefix > coalesce(cursor -> 'event' ->> 'prefix', '')
   order by e.delivery_prefix
   limit 1;
  return greatest(
    business_api.late_day_ms(retention_ms),
    coalesce(extract(epoch from now() - oldest) * 1000 - retention_ms - business_api.day_grace_ms(retention_ms), 0)
  );
end
$$;
select business_api.forbid_plans('purge_lag');

-- Runs the next part of the shared purge. See DeliveryStore.continuePurge in lib/webhooks/deliveries.ts. A part either
-- drops a day or deletes rows. Events are only deleted row by row if they're too old for their day to still be dropped.
create function business_api.continue_purge(retention_ms double precision, part_limit integer, share double precision)
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
    -- Another process has locked the row and is purging.
    return jsonb_build_object(
      'events', 0, 'days', 0, 'idempotencyKeys', 0, 'isDone', true, 'waitMs', 0, 'lagMs', null, 'retained', json_build_array()
    );
  end if;
  -- The purge must not stop because the clock was set back.
  if progress.paused_until > begun_at and progress.paused_until < begun_at + interval '5 minutes' then
    return jsonb_build_object(
      'events', 0, 'days', 0, 'idempotencyKeys', 0, 'isDone', false,
      'waitMs', extract(epoch from progress.paused_until - begun_at) * 1000, 'lagMs', null, 'retained', json_build_array()
    );
  end if;

  begin
    day := business_api.purge_days(retention_ms, part_limit);
  exception
    -- If row-level security is forced on the schema's owner, it may hide an open delivery.
    when insufficient_privilege then day := '{}';
  end;
  if day -> 'days' = '1' then
    update business_api.purge_progress p
       set retention_ms = retention_ms, purged_at = clock_timestamp(),
           paused_until = clock_timestamp() + (clock_timestamp() - begun_at) * (1 / share - 1)
     where p.organization_id = '';
    return jsonb_build_object(
      'events', day -> 'events', 'days', 1, 'idempotencyKeys', 0, 'isDone', false,
      'waitMs', extract(epoch from clock_timestamp() - begun_at) * 1000 * (1 / share - 1),
      'lagMs', business_api.purge_lag(retention_ms, progress.cursor), 'retained', coalesce(day -> 'retained', '[]')
    );
  end if;

  -- If the clock was ahead, the cursor must not skip events that become old later.
  if (progress.cursor -> 'event' ->> 'prefix') collate "C" >= business_api.day_bound(begun_at - old_ms * interval '1 millisecond') then
    progress.cursor := '{}';
  end if;

  -- If row-level security hides the row, every part starts with the oldest event.
  part := business_api.purge_part(old_ms, coalesce(progress.cursor, '{}'), part_limit, false, null);
  is_done := (part ->> 'isDone')::boolean and coalesce((day ->> 'isDone')::boolean, true);
  if is_done and progress.second_cursor is null
    and coalesce(progress.second_pass_at not between begun_at - interval '1 hour' and begun_at, true)
  then
    progress.second_cursor := '{}';
    progress.second_pass_at := begun_at;
  end if;
  if is_done and progress.second_cursor is not null then
    second := business_api.purge_part(old_ms, progress.second_cursor, part_limit, true, null);
    is_done := (second ->> 'isDone')::boolean;
    progress.second_cursor := case when not is_done then second -> 'cursor' end;
  end if;

  update business_api.purge_progress p
     set retention_ms = retention_ms, cursor = part -> 'cursor',
         second_cursor = progress.second_cursor, second_pass_at = progress.second_pass_at,
         purged_at = clock_timestamp(),
         paused_until = case
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
    'lagMs', business_api.purge_lag(retention_ms, part -> 'cursor'),
    'retained', coalesce(day -> 'retained', '[]')
  );
end
$$;
