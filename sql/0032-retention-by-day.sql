-- Retention by day: a day is dropped once all of it is older than the retention and nothing of it is open. Rows are purged one by
-- one by hand, in days that are kept, and where an event was published with an old created_at: see 0019-retention.sql.
-- Locks: none; later, the drop of a day locks business_api.events, business_api.finished_deliveries and business_api.delivery_attempts.

-- Finds the oldest open delivery of the first organization with an open delivery in a range of ids. The walk descends the primary
-- key twice for each organization with open deliveries, however many deliveries these are. Returns, as JSON, the organization, the
-- endpoint and the time of publishing; an empty object if the walk ends after 100,000 steps (a second) without an answer; null if
-- nothing in the range is open.
create function business_api.find_open_delivery(begins text, ends text) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
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

-- Returns the open deliveries for which days are kept, as a JSON array with the oldest of each endpoint, at most 100.
create function business_api.kept_deliveries() returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_agg(kept.delivery order by kept.begins), '[]')
    from (
      select (array_agg(d.kept_by order by d.begins))[1] as delivery, min(d.begins) as begins
        from business_api.event_days d
       where d.organization_id = '' and d.dropped_at is null and d.kept_by is not null
       group by d.kept_by ->> 'organizationId', d.kept_by ->> 'endpointId'
       order by 2
       limit 100
    ) as kept
$$;

-- Purges old events with deliveries and attempts, from a place in events_created_at_idx on. Events with an open delivery stay. A
-- delivery that is redelivered at the same moment keeps its event too, because all deliveries of an event are locked before the
-- event is deleted. Returns, as JSON, the number of purged events, the place of the last inspected
-- event, and isDone: true if no further event is old enough. A purge by hand leaves its audit entry in each organization that
-- loses events.
create or replace function business_api.purge_events(
  old_before timestamptz, place jsonb, event_limit integer, entry jsonb
) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
declare
  after_time timestamptz := coalesce((place ->> 'createdAt')::timestamptz, '-infinity');
  after_organization text := coalesce(place ->> 'organizationId', '');
  after_id text := coalesce(place ->> 'id', '');
  -- More candidates than events to purge: a few events that stay must not make a part smaller, and many must not end a small
  -- part.
  candidate_limit integer := greatest(event_limit + 100, 1000);
  -- Deliveries are limited too, because an event may have many endpoints and a part must not take long.
  delivery_limit bigint := event_limit * 10;
  purged jsonb;
  next_place jsonb;
  candidates integer;
  inspections integer;
begin
  with candidate as materialized (
    select e.organization_id, e.id, e.created_at, e.delivery_prefix from business_api.events e
     where e.created_at < old_before
       and (e.created_at, e.organization_id, e.id) > (after_time, after_organization, after_id)
     order by e.created_at, e.organization_id, e.id
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
    window in_order as (order by c.created_at, c.organization_id, c.id rows unbounded preceding)
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
    -- Counted over the rows, and not joined to the events: a join of two lists would compare every pair.
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
           select jsonb_build_object('createdAt', i.created_at, 'organizationId', i.organization_id, 'id', i.id)
             from inspected i order by i.number desc limit 1
         ),
         (select count(*) from candidate),
         (select count(*) from inspected)
    into purged, next_place, candidates, inspections;

  if entry is not null then
    insert into business_api.audit_entries as audit
      (organization_id, id, changed_at, actor, action, subject_id, details)
    select o.key, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', o.key,
           (entry -> 'details') || jsonb_build_object('events', o.value::bigint)
      from jsonb_each_text(purged) as o
    on conflict (organization_id, id) do update set
      details = audit.details || jsonb_build_object(
        'events', (audit.details ->> 'events')::bigint + (excluded.details ->> 'events')::bigint
      );
  end if;
  return jsonb_build_object(
    'events', (select coalesce(sum(o.value::bigint), 0) from jsonb_each_text(purged) as o),
    'place', coalesce(next_place, place),
    'isDone', candidates < candidate_limit and inspections = candidates
  );
end
$$;

-- Deletes the rows of removed endpoints without deliveries, from a place on. Each endpoint costs some descents of indexes;
-- deliveries in flight are few. Returns the place of the last inspected endpoint; null if no endpoint follows.
create or replace function business_api.purge_removed_endpoints(place jsonb, endpoint_limit integer) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
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
  ), in_flight as materialized (
    select distinct d.organization_id, d.endpoint_id from business_api.open_deliveries d where d.lease_until is not null
  ), purgeable as materialized (
    -- Before the join with the rows to delete, which was planned as a loop around these searches.
    select r.organization_id, r.id from removed r
     where not exists (
         select 1
           from unnest(array['delivered', 'dead_lettered', 'skipped', 'cancelled']) as final (state)
           cross join lateral (
             select 1 from business_api.finished_deliveries d
              where d.organization_id = r.organization_id and d.endpoint_id = r.id
                and d.state = final.state and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
              limit 1
           ) as finished
       )
       and not exists (
         select 1 from business_api.open_deliveries d
          where d.organization_id = r.organization_id and d.endpoint_id = r.id
            and d.claim_token is null and not d.is_backing_off and not d.is_backfill
       )
       and not exists (
         select 1 from business_api.open_deliveries d
          where d.organization_id = r.organization_id and d.endpoint_id = r.id
            and d.claim_token is null and not d.is_backing_off and d.is_backfill
       )
       and not exists (
         select 1 from business_api.open_deliveries d
          where d.organization_id = r.organization_id and d.endpoint_id = r.id
            and d.is_backing_off
       )
       and not exists (
         select 1 from in_flight f where f.organization_id = r.organization_id and f.endpoint_id = r.id
       )
  ), purged as (
    delete from business_api.webhook_endpoints e using purgeable p
     where e.organization_id = p.organization_id and e.id = p.id and e.state = 'removed'
  )
  select count(*), (array_agg(jsonb_build_object('organizationId', r.organization_id, 'id', r.id)
                    order by r.organization_id desc, r.id desc))[1]
    into inspections, next_place
    from removed r;
  return case when inspections = endpoint_limit then next_place end;
end
$$;

-- Deletes a part of everything that belongs to an organization: see OrganizationStore.deletePart in lib/access/organizations.ts.
-- API keys and endpoints end with the first part, so that no request and no publishing adds anything, and are deleted last. A
-- delivery in flight is deleted too, and its result, which is fenced by the claim's token, finds nothing. `after` is null for the
-- first part, then a JSON array: the place of the table in the list, and the key of the row that was deleted last. Each walk reads
-- along a primary key from there on, because the keys of deleted rows stay in the index until the next vacuum. Returns, as JSON,
-- the number of deleted rows of each table, and the next `after`; null ends the walk, also where a write that was under way has
-- added a row that refers to the rows of the part: the next walk deletes that row first.
--
-- Generic plans, for the checks of foreign keys: an organization that the statistics do not know was searched for references along
-- any index of the organization, past all rows that were deleted before (measured: 1.5 s for 1000 businesses, now 0.04 s).
create or replace function business_api.delete_organization_part(organization_id text, part_limit integer, after jsonb) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  targets text[];
  place integer := coalesce((after ->> 0)::integer, 1);
  columns text;
  lower_bound text := '';
  last_key jsonb;
  deleted bigint := 0;
  at_time timestamptz := clock_timestamp();
begin
  if after is null then
    update business_api.api_keys k set revoked_at = at_time
     where k.organization_id = $1 and (k.revoked_at is null or k.revoked_at > at_time);
    update business_api.webhook_endpoints e
       set state = 'removed', sealed_secret = null, previous_sealed_secret = null, previous_secret_expires_at = null,
           sealed_headers = null
     where e.organization_id = $1 and e.state <> 'removed';
  end if;

  -- Referring tables come before the tables that they refer to.
  targets := array[
    ['delivery_attempts', 'delivery_id, number'],
    ['open_deliveries', 'id'],
    ['finished_deliveries', 'id'],
    ['events', 'id'],
    ['idempotency_keys', 'operation, key'],
    ['payments', 'id'],
    ['invoices', 'id'],
    ['leads', 'id'],
    ['clients', 'id'],
    ['businesses', 'id'],
    ['proposals', 'id'],
    ['projects', 'id'],
    ['number_series', 'series'],
    ['audit_entries', 'id'],
    ['webhook_endpoints', 'id'],
    ['organization_limits', 'organization_id'],
    ['rate_buckets', 'bucket'],
    ['settings_turns', 'organization_id'],
    ['api_keys', 'id'],
    -- Last, because a walk that began before this table existed goes on by the places of the other tables.
    ['event_ids', 'id']
  ];
  columns := targets[place][2];
  if after ->> 1 is not null then
    lower_bound := format('and (%s) > (%s)', columns, business_api.literals_of(after -> 1));
  end if;
  -- A range of the primary key instead of a join: under statistics from before the organization grew, a join with the rows of
  -- the part was planned as a loop over all rows of the organization (measured: 193 s for 1000 of 400,000 attempts, now 10 ms).
  execute format(
    'select jsonb_build_array(%2$s) from (
       select %2$s from business_api.%1$I where organization_id = $1 %3$s order by %2$s limit $2
     ) as part
     order by %4$s limit 1',
    targets[place][1], columns, lower_bound, replace(columns, ',', ' desc,') || ' desc'
  ) using $1, part_limit into last_key;
  if last_key is not null then
    execute format(
      'delete from business_api.%1$I where organization_id = $1 %3$s and (%2$s) <= (%4$s)',
      targets[place][1], columns, lower_bound, business_api.literals_of(last_key)
    ) using $1;
    get diagnostics deleted = row_count;
  end if;
  return jsonb_build_object(
    'counts', case when deleted > 0 then jsonb_build_object(targets[place][1], deleted) else '{}' end,
    'next', case
      when deleted >= part_limit then jsonb_build_array(place, last_key)
      when place < array_length(targets, 1) then jsonb_build_array(place + 1, null)
    end
  );
exception
  when foreign_key_violation then
    return '{"counts": {}, "next": null}'::jsonb;
end
$$;
