-- Publishing into days: the day of an event is made before it is needed, and the id of an event that may be published twice is kept in
-- event_ids. These functions also work before events is partitioned (0030-partitions.sql), and replace the functions of 0014 and 0020.
-- Locks: none.

-- Makes an id in the form of the application: `<kind>_<ulid>`, with 48 bits of milliseconds and 79 random bits. A loop, because
-- a query for the digits takes longer.
create or replace function business_api.new_id(kind text) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  alphabet constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  milliseconds bigint := floor(extract(epoch from clock_timestamp()) * 1000)::bigint;
  -- Each of the sixteen bytes gives five bits; the byte with the version of a UUID gives fewer.
  random_bytes bytea := uuid_send(gen_random_uuid());
  id text := kind || '_';
begin
  for place in 0 .. 9 loop
    id := id || substr(alphabet, ((milliseconds >> (45 - 5 * place)) & 31)::int + 1, 1);
  end loop;
  for place in 0 .. 15 loop
    id := id || substr(alphabet, (get_byte(random_bytes, place) & 31) + 1, 1);
  end loop;
  return id;
end
$$;

-- Makes the digits with which the ids of all deliveries of a call begin, in the form of the application: `dlv_`, 48 bits of
-- milliseconds, ten bits of microseconds, twenty random bits. Ten further digits of an id are the number of the event in the call and
-- the number of the endpoint, hexadecimal, which are ULID digits too: a call of new_id for each delivery took longer than everything
-- else. So the ids have the order in which the events were inserted.
create or replace function business_api.delivery_digits(at_time timestamptz) returns text
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

-- Inserts events with one delivery for each endpoint of the organization that wants the type: open, or skipped at once for a
-- disabled endpoint, so that the delivery can be recovered later. An event without `hasNewId` may have been
-- published before: an existing id keeps the first event, and nothing is sent again. An id that was made for the event is not
-- looked up. Returns the number of open deliveries. The ids of all deliveries share one timestamp, which is also the created_at,
-- because the log finds a period by the ids.
create or replace function business_api.insert_events(organization_id text, events jsonb) returns bigint
language plpgsql volatile
set search_path = ''
as $$
declare
  written bigint;
  at_time timestamptz := clock_timestamp();
  digits text := business_api.delivery_digits(at_time);
  given record;
  max_bytes integer;
  first_end text;
  -- The numbers, in the call, of the events whose ids were looked up and are new.
  fresh bigint[] := '{}';
begin
  -- One statement, because each further one costs a tenth of publishing an event.
  select bool_or(strpos(e.body, E'"\\u0000') > 0) as has_placeholder, max(octet_length(e.body)) as bytes,
         bool_or(e."hasNewId" is not true) as has_own_ids,
         exists (
           select 1 from business_api.event_days d
            where d.organization_id = '' and d.begins <= digits and d.ends > digits and d.dropped_at is null
         ) as has_day
    into given
    from jsonb_to_recordset($2) as e (body text, "hasNewId" boolean);
  if given.has_placeholder then
    raise exception 'Cannot insert an event because a placeholder is left in its body';
  end if;
  if given.bytes > 65536 then
    -- The default applies if row level security hides the row.
    max_bytes := coalesce((select l.max_body_bytes from business_api.event_limits l where l.organization_id = ''), 262144);
    if given.bytes > max_bytes then
      raise exception 'Cannot publish % because its body has % bytes, and an event may have %',
        (
          select e.type from jsonb_to_recordset($2) as e (type text, body text) order by octet_length(e.body) desc limit 1
        ), given.bytes, max_bytes
        using errcode = 'invalid_parameter_value', constraint = 'event_limits_max_body_bytes',
              hint = 'Publish an id with which subscribers can fetch the rest.';
    end if;
  end if;
  if not given.has_day then
    perform business_api.make_days();
  end if;
  if given.has_own_ids then
    first_end := business_api.first_day_end();
    with looked_up as (
      select e.value ->> 'id' as id, digits || upper(lpad(to_hex(e.number), 5, '0')) as delivery_prefix, e.number
        from jsonb_array_elements($2) with ordinality as e (value, number)
       where e.value -> 'hasNewId' is distinct from 'true'
    ), taken as (
      insert into business_api.event_ids as i (organization_id, id, delivery_prefix)
      select $1, l.id, l.delivery_prefix from looked_up l
      on conflict do nothing
      returning i.delivery_prefix
    )
    select coalesce(array_agg(l.number), '{}') into fresh
      from taken
      join looked_up l on l.delivery_prefix = taken.delivery_prefix;
    if first_end is not null and cardinality(fresh) > 0 then
      select coalesce(array_agg(e.number), '{}') into fresh
        from jsonb_array_elements($2) with ordinality as e (value, number)
       where e.number = any (fresh) and not exists (
         select 1 from business_api.events known
          where known.organization_id = $1 and known.id = e.value ->> 'id' and known.delivery_prefix < first_end
       );
    end if;
  end if;
  with inserted as (
    insert into business_api.events (organization_id, id, type, created_at, body, traceparent, delivery_prefix)
    select $1, e.id, e.type, e."createdAt", e.body, e.traceparent, digits || upper(lpad(to_hex(e.number), 5, '0'))
      from (
        select one.*, row_number() over () as number
          from jsonb_to_recordset($2)
                 as one (
                   id text, type text, "createdAt" timestamptz, body text, traceparent text, "hasNewId" boolean
                 )
      ) as e
     where e."hasNewId" or e.number = any (fresh)
    returning id, type, delivery_prefix
  ), endpoint as materialized (
    select e.id, e.state, e.types, upper(lpad(to_hex(row_number() over ()), 5, '0')) as number
      from business_api.webhook_endpoints e
     where e.organization_id = $1 and e.state <> 'removed'
  ), fanned_out as materialized (
    select inserted.delivery_prefix || endpoint.number as id, inserted.id as event_id, inserted.type,
           endpoint.id as endpoint_id, endpoint.state
      from inserted
      join endpoint on endpoint.types is null or inserted.type = any (endpoint.types)
  ), opened as (
    insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at, created_at)
    select $1, f.id, f.event_id, f.type, f.endpoint_id, at_time, at_time from fanned_out f where f.state <> 'disabled'
    returning 1
  ), skipped as (
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at)
    select $1, f.id, f.event_id, f.type, f.endpoint_id, 'skipped', 'endpoint_disabled', at_time, at_time
      from fanned_out f where f.state = 'disabled'
  )
  select count(*) into written from opened;
  return written;
end
$$;

-- Carries out a part of a backfill: see BackfillStore.backfill in lib/webhooks/backfill.ts. Returns, as JSON, the outcome; null
-- if there is no such endpoint. A record is left out if the event of its creation has a delivery to the endpoint that was made or
-- is still to be made. The events of the seconds in which the records of the part were created are searched for such a delivery;
-- records from before the endpoint are not, because they cannot have any.
create or replace function business_api.backfill_part(
  organization_id text, endpoint_id text, type text, template text, after_id text, record_limit integer, entry jsonb
) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  at_time timestamptz := date_trunc('milliseconds', clock_timestamp());
  created_text text := to_char(at_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
  digits text := business_api.delivery_digits(at_time);
  first_end text := business_api.first_day_end();
  endpoint record;
  -- The records of the part, and those of which the endpoint was told.
  batch jsonb;
  announced text[];
  -- The ids of new events, each with the beginning of the ids of deliveries.
  taken jsonb := '{}';
  taken_id text;
  taken_prefix text;
  batch_events jsonb;
  made integer;
begin
  select e.state, e.types, e.created_at into endpoint from business_api.webhook_endpoints e
   where e.organization_id = $1 and e.id = $2 and e.state <> 'removed';
  if not found then
    return null;
  end if;
  if endpoint.state <> 'enabled' then
    return json_build_object('outcome', 'not_enabled')::text;
  end if;
  if $3 <> all (endpoint.types) then
    return json_build_object('outcome', 'not_wanted')::text;
  end if;

  if not exists (
    select 1 from business_api.event_days d
     where d.organization_id = '' and d.begins <= digits and d.ends > digits and d.dropped_at is null
  ) then
    perform business_api.make_days();
  end if;
  -- One statement after the other, each of one organization: a distributed database sends an insertion in `with` to every node.
  select coalesce(jsonb_agg(jsonb_build_object(
           'id', r.id, 'businessId', r.business_id, 'representation', r.representation,
           'second', floor(extract(epoch from business_api.id_time(r.id)))::bigint,
           'eventId', 'evt_backfill_' || left(encode(sha256(convert_to($2 || ' ' || $3 || ' ' || r.id, 'UTF8')), 'hex'), 32)
         ) order by r.id collate "C"), '[]')
    into batch
    from business_api.backfill_records($1, $3, $5, $6) as r;

  with second as materialized (
    -- A second before and after, because the clock of a process may step back between the id and the event.
    select distinct b.second + near.seconds as begins
      from jsonb_to_recordset(batch) as b (second bigint), generate_series(-1, 1) as near (seconds)
     where b.second >= extract(epoch from endpoint.created_at) - 60
  )
  -- A publisher in SQL writes a space behind the colon.
  select array_agg(distinct named.id) filter (where named.id is not null) into announced
    from second
    join lateral (
      select e.id, e.body, e.delivery_prefix from business_api.events e
       where e.organization_id = $1 and e.created_at >= to_timestamp(second.begins)
         and e.created_at < to_timestamp(second.begins + 1)
         and e.type = $3 and e.only_endpoint_id is null
    ) as event on true
    join lateral (
      select 1 from business_api.deliveries_of_event($1, event.id, event.delivery_prefix) as d
       where d.endpoint_id = $2 and d.state in ('pending', 'in_flight', 'delivered')
       limit 1
    ) as delivery on true
    -- Null for an event that names no record, as a host may publish.
    cross join lateral substring(event.body from '"' || split_part($3, '.', 1) || 'Id": ?"([^"]+)"') as named (id);

  for taken_id, taken_prefix in
    insert into business_api.event_ids as i (organization_id, id, delivery_prefix)
    select $1, b.event_id, digits || upper(lpad(to_hex(b.number), 5, '0'))
      from (
        select wanted."eventId" as event_id, row_number() over () as number
          from jsonb_to_recordset(batch) as wanted (id text, "eventId" text)
         where wanted.id <> all (coalesce(announced, '{}'))
      ) as b
    on conflict do nothing
    returning i.id, i.delivery_prefix
  loop
    taken := taken || jsonb_build_object(taken_id, taken_prefix);
  end loop;
  -- Events of the first day have no row in event_ids.
  if first_end is not null and taken <> '{}' then
    for taken_id in
      select known.id from business_api.events known
       where known.organization_id = $1 and known.id = any (array(select jsonb_object_keys(taken)))
         and known.delivery_prefix < first_end
    loop
      taken := taken - taken_id;
    end loop;
  end if;
  select coalesce(jsonb_agg(jsonb_build_object(
           'id', b."eventId", 'prefix', taken ->> b."eventId",
           'body', business_api.render_template($4, b.representation::json, json_build_object(
             'eventId', b."eventId", 'eventCreatedAt', created_text, 'businessId', b."businessId"
           ))
         )), '[]')
    into batch_events
    from jsonb_to_recordset(batch) as b (id text, "businessId" text, representation text, "eventId" text)
   where taken ? b."eventId";
  insert into business_api.events (organization_id, id, type, created_at, body, only_endpoint_id, delivery_prefix)
  select $1, e.id, $3, at_time, e.body, $2, e.prefix
    from jsonb_to_recordset(batch_events) as e (id text, body text, prefix text);
  insert into business_api.open_deliveries
    (organization_id, id, event_id, type, endpoint_id, due_at, created_at, is_backfill)
  select $1, e.prefix || '00001', e.id, $3, $2, at_time, at_time, true
    from jsonb_to_recordset(batch_events) as e (id text, prefix text);
  get diagnostics made = row_count;

  if made > 0 then
    insert into business_api.audit_entries as audit
      (organization_id, id, changed_at, actor, action, subject_id, details)
    values (
      $1, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', entry ->> 'subjectId',
      (entry -> 'details') || jsonb_build_object('events', made)
    )
    on conflict (organization_id, id) do update set
      details = audit.details || (
        '{"events":' || ((audit.details ->> 'events')::bigint + (excluded.details ->> 'events')::bigint)::text || '}'
      )::jsonb;
  end if;
  return json_build_object(
    'outcome', 'done', 'examined', jsonb_array_length(batch), 'events', made,
    'next', case when jsonb_array_length(batch) = record_limit then batch -> -1 ->> 'id' end
  )::text;
end
$$;
