-- Finds events by ID, in no particular order. Our own IDs start with the publishing time, and event_ids has the days of
-- all others. If neither leads to an event, the ID doesn't exist or comes from a process whose clock is wrong, and we
-- search every day. Statements are planned for specific bounds, because planning for all days takes ten times as long
-- as executing them.
create function business_api.find_events(organization_id text, ids text[]) returns setof business_api.events
language plpgsql stable rows 8
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  missing text[] := array(select distinct wanted.id from unnest($2) as wanted (id));
  sought text[];
  first_prefix text;
  last_prefix text;
  event business_api.events;
begin
  for step in 1 .. 3 loop
    exit when cardinality(missing) = 0;
    if step = 1 then
      select array_agg(m.id), min(m.id collate "C"), max(m.id collate "C") into sought, first_prefix, last_prefix
        from unnest(missing) as m (id) where m.id ~ '^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$';
      -- The process's clock may differ, and the statement may have been retried.
      first_prefix := business_api.day_bound(business_api.id_time(first_prefix) - interval '5 minutes');
      last_prefix := business_api.day_bound(business_api.id_time(last_prefix) + interval '5 minutes');
    elsif step = 2 then
      select array_agg(known.id), min(known.delivery_prefix collate "C"), max(known.delivery_prefix collate "C")
        into sought, first_prefix, last_prefix
        from unnest(missing) as m (id)
        cross join lateral (
          select i.id, i.delivery_prefix from business_api.event_ids i
           where i.organization_id = $1 and i.id = m.id
           limit 1
        ) as known;
    else
      sought := missing;
      first_prefix := '';
      last_prefix := '~';
    end if;
    continue when sought is null;
    for event in
      select found.*
        from unnest(sought) as wanted (id)
        cross join lateral (
          select e.* from business_api.events e
           where e.organization_id = $1 and e.id = wanted.id
             and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_prefix
           order by e.delivery_prefix limit 1
        ) as found
    loop
      missing := array_remove(missing, event.id);
      return next event;
    end loop;
  end loop;
end
$$;
select business_api.forbid_plans('find_events');

-- Finds a record's events, in no particular order. There are usually a few and rarely thousands, and each day takes an
-- index lookup. With any condition other than the hash, the planner could choose another index.
create function business_api.events_of_subject(organization_id text, subject_id text) returns setof business_api.events
language plpgsql stable rows 8
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
    select found.*
      from (
        select e.* from business_api.events e
         where hashtextextended(e.organization_id || ' ' || e.subject_id, 0) = hashtextextended($1 || ' ' || $2, 0)
           and e.subject_id is not null
        offset 0
      ) as found
     where found.organization_id = $1 and found.subject_id = $2;
end
$$;
select business_api.forbid_plans('events_of_subject');

-- Returns the IDs that a text may stand for: itself, and those of the invoice and proposal with this number, which is
-- looked up as in next_number. Has no settings so that it's inlined.
create function business_api.record_ids(organization_id text, id_or_number text) returns setof text
language sql stable
as $$
  select $2 collate "C"
  union (
    select i.id from business_api.invoices i
     where i.organization_id = $1 and i.number >= $2 and i.number <= $2 order by i.number limit 1
  ) union (
    select p.id from business_api.proposals p
     where p.organization_id = $1 and p.number >= $2 and p.number <= $2 order by p.number limit 1
  )
$$;

-- Finds the events of a record by its ID or number, in no particular order. Has no settings so that it's inlined.
create function business_api.events_of_record(organization_id text, id_or_number text) returns setof business_api.events
language sql stable
as $$
  select event.*
    from business_api.record_ids($1, $2) as subject (id)
    cross join lateral business_api.events_of_subject($1, subject.id) as event
$$;

-- Lists an organization's latest events as JSON. See EventLogStore.list in lib/webhooks/event-log.ts. `type`,
-- `before_id` and `subject_id` may be null. Only lists events with a delivery_prefix of at least first_prefix and below
-- end_prefix, and reads up to inspected_limit events to fill the page. Each day takes an index lookup. Planning for all
-- days takes longer, but only once per session. The row comparisons make the planner use events_log_idx, and the bounds
-- exclude days.
create function business_api.list_events(
  organization_id text,
  type text,
  first_prefix text,
  end_prefix text,
  before_id text,
  page_limit integer,
  inspected_limit integer,
  subject_id text
) returns text
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  -- Only events before this place are listed.
  end_place text := $4;
  before_prefix text;
  inspected integer := 0;
  found_events refcursor;
  event record;
  next_id text;
  ids text[] := '{}';
  types text[] := '{}';
  subject_ids text[] := '{}';
  only_endpoint_ids text[] := '{}';
  delivery_prefixes text[] := '{}';
begin
  if $5 is not null then
    select e.delivery_prefix into before_prefix from business_api.find_events($1, array[$5]) as e;
    if not found then
      return '{"events":[],"next":null}';
    end if;
    end_place := least(before_prefix collate "C", end_place);
  end if;

  if $8 is null then
    open found_events for
      select e.id, e.type, e.subject_id, e.only_endpoint_id, e.delivery_prefix from business_api.events e
       where e.delivery_prefix >= $3 and e.delivery_prefix < end_place
         and (e.organization_id, e.delivery_prefix) >= ($1, $3) and (e.organization_id, e.delivery_prefix) < ($1, end_place)
       order by e.organization_id desc, e.delivery_prefix desc
       limit $7;
  else
    open found_events for
      select e.id, e.type, e.subject_id, e.only_endpoint_id, e.delivery_prefix
        from business_api.events_of_record($1, $8) e
       where e.delivery_prefix >= $3 and e.delivery_prefix < end_place
       order by e.delivery_prefix desc
       limit $7;
  end if;
  loop
    fetch found_events into event;
    exit when not found;
    inspected := inspected + 1;
    if $2 is null or event.type = $2 then
      if cardinality(ids) = $6 then
        next_id := ids[$6];
        exit;
      end if;
      ids := ids || event.id;
      types := types || event.type;
      subject_ids := subject_ids || event.subject_id;
      only_endpoint_ids := only_endpoint_ids || event.only_endpoint_id;
      delivery_prefixes := delivery_prefixes || event.delivery_prefix;
    end if;
    exit when inspected = $7;
  end loop;
  close found_events;
  if next_id is null and inspected = $7 then
    next_id := event.id;
  end if;

  return (
    with counted as materialized (
      select states.event_id, json_object_agg(states.state, states.deliveries) as deliveries
        from (
          select d.event_id, d.state, count(*) as deliveries
            from business_api.deliveries_of_events($1, ids, delivery_prefixes) as d
           group by d.event_id, d.state
        ) as states
       group by states.event_id
    )
    select json_build_object('events', coalesce(json_agg(json_build_object(
             'id', listed.id, 'type', listed.type,
             'createdAt', to_char(business_api.published_at(listed.prefix) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
             'subjectId', listed.subject_id, 'onlyEndpointId', listed.only_endpoint_id,
             'deliveries', coalesce(counted.deliveries, '{}')
           ) order by listed.place), '[]'), 'next', next_id)::text
      from unnest(ids, types, subject_ids, only_endpoint_ids, delivery_prefixes) with ordinality
             as listed (id, type, subject_id, only_endpoint_id, prefix, place)
      left join counted on counted.event_id = listed.id
  );
end
$$;
select business_api.forbid_plans('list_events', 'enable_sort');

-- Lists an organization's events after the given delivery_prefix as JSON. See EventLogStore.listSince and list_events.
create function business_api.list_events_since(organization_id text, after_prefix text, row_limit integer) returns text
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
begin
  return (
    select coalesce(json_agg(json_build_object(
             'at', to_char(business_api.published_at(event.delivery_prefix) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
             'place', event.delivery_prefix, 'id', event.id, 'type', event.type, 'onlyEndpointId', event.only_endpoint_id
           ) order by event.delivery_prefix), '[]')::text
      from (
        select e.id, e.type, e.only_endpoint_id, e.delivery_prefix from business_api.events e
         where e.delivery_prefix > $2
           and (e.organization_id, e.delivery_prefix) > ($1, $2) and (e.organization_id, e.delivery_prefix) < ($1, '~')
         order by e.organization_id, e.delivery_prefix
         limit $3
      ) as event
  );
end
$$;
select business_api.forbid_plans('list_events_since', 'enable_sort');
