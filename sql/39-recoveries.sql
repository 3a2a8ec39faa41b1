-- Recoveries, which send finished deliveries again.

-- Starts a new round for an organization's finished deliveries with these IDs that match the filter. If the filter's
-- states contain `pending`, the rest of the limit is for deliveries that are backing off. If a call is retried, the
-- entry's subject isn't reopened again. Returns a JSON array of IDs.
create function business_api.reopen_deliveries(
  organization_id text, ids text[], filter jsonb, delivery_limit integer, entry jsonb
) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  f business_api.delivery_filter := jsonb_populate_record(null::business_api.delivery_filter, filter);
  subject_ids text[];
  locked text[];
  is_repeat boolean;
  taken text[];
begin
  if f."subjectId" is not null then
    subject_ids := array(select r.id from business_api.record_ids($1, f."subjectId") as r (id));
    -- A delivery's ID is its event's delivery_prefix followed by five digits.
    ids := array(
      select w.id from unnest(ids) as w (id)
       where exists (
         select 1 from business_api.events e
          where e.organization_id = $1 and e.subject_id = any (subject_ids) and e.delivery_prefix = left(w.id, -5)
       )
    );
  end if;
  -- A concurrent recovery waits here and then finds that the deliveries are gone.
  select coalesce(array_agg(g.id), '{}') into locked
    from (
      select d.id from business_api.finished_deliveries d
       where d.organization_id = $1 and d.id = any ($2)
         and business_api.is_selected(f, business_api.log_finished(d))
         and exists (
           select 1 from business_api.webhook_endpoints e
            where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
         )
       order by d.id
       limit $4
         for update of d
    ) as g;
  -- Checked after waiting, because an earlier attempt of this call may have ended in the meantime.
  is_repeat := business_api.is_recorded($1, entry ->> 'id');
  if is_repeat then
    locked := array_remove(locked, entry ->> 'subjectId');
  end if;
  with gone as (
    delete from business_api.finished_deliveries d
     where d.organization_id = $1 and d.id = any (locked)
    returning d.*
  ), reopened as (
    insert into business_api.open_deliveries
      (organization_id, id, event_id, type, endpoint_id, due_at, created_at, attempts, attempts_before, is_backfill)
    select $1, g.id, g.event_id, g.type, g.endpoint_id, now(), g.created_at, g.attempts, g.attempts, g.is_backfill from gone g
    returning id
  ), uncounted as (
    -- Each delivery counts once, by its latest outcome. See count_activity.
    insert into business_api.endpoint_activity as present (organization_id, hour, endpoint_id, slot, counts)
    select $1, c.hour, c.endpoint_id, 8,
           array(select - cardinality(array_positions(c.places, place)) from generate_series(1, 24) as place)
      from (
        select date_trunc('hour', g.created_at, 'UTC') as hour, g.endpoint_id,
               array_agg(case g.state when 'failed' then 1 else 12 end) as places
          from gone g
         where g.state in ('failed', 'delivered')
         group by 1, 2
      ) as c
     -- Purged counts can't be corrected.
     where exists (
       select from business_api.endpoint_activity a
        where a.organization_id = $1 and a.hour = c.hour and a.endpoint_id = c.endpoint_id and a.slot < 8
     )
     order by c.hour, c.endpoint_id
    on conflict on constraint endpoint_activity_pkey do update set
      counts = array(select c.one + c.other from unnest(present.counts, excluded.counts) as c (one, other))
  )
  select coalesce(array_agg(r.id), '{}') into taken from reopened r;
  if 'pending' = any (f.states) then
    -- The same for an earlier attempt of this call that has locked these rows.
    perform 1 from business_api.open_deliveries o where o.organization_id = $1 and o.id = any ($2) order by o.id for update;
    is_repeat := business_api.is_recorded($1, entry ->> 'id');
    with retried as (
      update business_api.open_deliveries d
         set due_at = now(), is_backing_off = false, attempts_before = d.attempts
       where d.organization_id = $1
         and d.id in (
           select o.id from business_api.open_deliveries o
            where o.organization_id = $1 and o.id = any ($2) and o.id <> all (taken)
              and o.claim_token is null and o.is_backing_off and o.due_at > now()
              and not (is_repeat and o.id = entry ->> 'subjectId')
              and business_api.is_selected(f, business_api.log_open(o))
              and exists (
                select 1 from business_api.webhook_endpoints e
                 where e.organization_id = $1 and e.id = o.endpoint_id and e.state <> 'removed'
              )
            order by o.id
            limit $4 - cardinality(locked)
         )
      returning d.id
    )
    select taken || coalesce(array_agg(r.id), '{}') into taken from retried r;
  end if;
  if taken <> '{}' then
    -- The calls of a recovery share one audit entry.
    perform business_api.count_in_entry($1, entry, 'recovered', cardinality(taken));
  end if;
  if is_repeat and entry ->> 'subjectId' = any ($2) then
    taken := taken || (entry ->> 'subjectId');
  end if;
  return (select coalesce(json_agg(t.id order by t.id collate "C"), '[]') from unnest(taken) as t (id))::text;
end
$$;
select business_api.forbid_plans('reopen_deliveries');

-- Sends an event to one endpoint. See DeliveryStore.redeliverEvent. An existing delivery starts a new round. Otherwise
-- a delivery is created in the event's day, as skipped at first so that the day isn't dropped in the meantime (see
-- purge_days). An organization's calls run one after another, so repeating a call doesn't create another delivery.
create function business_api.redeliver_event(organization_id text, event_id text, endpoint_id text, entry jsonb) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  event record;
  delivery_id text;
begin
  perform business_api.take_settings_turn($1);
  select e.id, e.type, e.delivery_prefix into event from business_api.find_events($1, array[$2]) as e;
  if not found then
    return '{"outcome": "no event", "deliveryId": null}';
  end if;
  if not exists (
    select 1 from business_api.webhook_endpoints e where e.organization_id = $1 and e.id = $3 and e.state <> 'removed'
  ) then
    return '{"outcome": "no endpoint", "deliveryId": null}';
  end if;
  select max(d.id) into delivery_id
    from business_api.deliveries_of_event($1, event.id, event.delivery_prefix) as d
   where d.endpoint_id = $3;
  if delivery_id is null then
    -- The next unused number. See insert_events.
    select event.delivery_prefix
           || upper(lpad(to_hex(1 + coalesce(max(('x' || lpad(right(d.id, 5), 8, '0'))::bit(32)::integer), 0)), 5, '0'))
      into delivery_id
      from business_api.deliveries_of_event($1, event.id, event.delivery_prefix) as d;
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at)
    values (
      $1, delivery_id, event.id, event.type, $3, 'skipped', business_api.published_at(event.delivery_prefix), clock_timestamp()
    );
  end if;
  return json_build_object(
    'deliveryId', delivery_id,
    'outcome', case
      when business_api.reopen_deliveries(
        $1, array[delivery_id], '{}', 1, $4 || jsonb_build_object('subjectId', delivery_id)
      ) = '[]' then 'open' else 'sent'
    end
  )::text;
end
$$;
select business_api.forbid_plans('redeliver_event');
