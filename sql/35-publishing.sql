-- Publishing: inserts events and their deliveries into the current day.

-- Generates an ID in the same format that the application uses: `<kind>_<ulid>` with 48 bits for the milliseconds and
-- 79 random bits. A query that builds the digits takes longer than this loop.
create function business_api.new_id(kind text) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  alphabet constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  milliseconds bigint := floor(extract(epoch from clock_timestamp()) * 1000)::bigint;
  -- We use five bits of each byte. The byte with the UUID version has fewer random ones.
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

-- Inserts events, with one delivery for each of the organization's endpoints that want the type. A disabled endpoint's
-- delivery is skipped immediately, so it can be recovered later. Events without `hasNewId` may have been published
-- before, in which case the existing event is kept and nothing is sent again. Newly generated IDs aren't looked up.
-- Returns the number of open deliveries that the caller has to wake a loop for. All delivery IDs have the same
-- timestamp, which is the publishing time and also their created_at, because the log uses IDs to find a period.
create function business_api.insert_events(organization_id text, events jsonb) returns bigint
language plpgsql volatile
set search_path = ''
as $$
declare
  written bigint;
  at_time timestamptz := clock_timestamp();
  digits text := business_api.delivery_digits(at_time);
  given record;
  max_bytes integer;
  -- Read once for both kinds of deliveries.
  endpoint_ids text[];
  endpoint_types text[];
  are_disabled boolean[];
  place integer;
  -- True for each event in the call that is new and has an ID chosen by the host. We don't use an array of positions
  -- because a cached plan would compare each event with all elements.
  are_new boolean[];
begin
  -- This is a single statement because the function runs for every event, where any extra statement is noticeable.
  select bool_or(strpos(e.body, E'"\\u0000') > 0) as has_placeholder, max(octet_length(e.body)) as bytes,
         bool_or(e."hasNewId" is not true) as has_own_ids
    into given
    from jsonb_to_recordset($2) as e (body text, "hasNewId" boolean);
  if given.has_placeholder then
    raise exception 'Cannot insert an event because a placeholder is left in its body';
  end if;
  if given.bytes > 65536 then
    -- Falls back to the default if row-level security hides the row.
    max_bytes := coalesce((select l.max_body_bytes from business_api.event_limits l where l.organization_id = ''), 262144);
    if given.bytes > max_bytes then
      raise exception 'Cannot publish % because its body has % bytes, more than the maximum of %',
        (
          select e.type from jsonb_to_recordset($2) as e (type text, body text) order by octet_length(e.body) desc limit 1
        ), given.bytes, max_bytes
        using errcode = 'invalid_parameter_value', constraint = 'event_limits_max_body_bytes',
              hint = 'Publish an id that subscribers can fetch the rest with.';
    end if;
  end if;
  if (
    digits >= current_setting('business_api.day_known_from', true) collate "C"
    and digits < current_setting('business_api.day_known_until', true) collate "C"
  ) is not true then
    perform business_api.ensure_day(at_time);
  end if;
  if given.has_own_ids then
    are_new := array_fill(false, array[jsonb_array_length($2)]);
    for place in
      insert into business_api.event_ids as i (organization_id, id, delivery_prefix)
      select $1, e.value ->> 'id', digits || upper(lpad(to_hex(e.number), 5, '0'))
        from jsonb_array_elements($2) with ordinality as e (value, number)
       where e.value -> 'hasNewId' is distinct from 'true'
      on conflict do nothing
      returning ('x' || lpad(right(i.delivery_prefix, 5), 8, '0'))::bit(32)::integer
    loop
      are_new[place] := true;
    end loop;
  end if;

  insert into business_api.events (organization_id, id, type, body, traceparent, subject_id, delivery_prefix)
  select $1, e.id, e.type, e.body, e.traceparent, e."subjectId", digits || upper(lpad(to_hex(e.number), 5, '0'))
    from (
      select one.*, row_number() over () as number
        from jsonb_to_recordset($2)
               as one (id text, type text, body text, traceparent text, "subjectId" text, "hasNewId" boolean)
    ) as e
   where e."hasNewId" or are_new[e.number];
  select array_agg(w.id), array_agg(w.types::text), array_agg(w.state = 'disabled') into endpoint_ids, endpoint_types, are_disabled
    from business_api.webhook_endpoints w
   where w.organization_id = $1 and w.state <> 'removed';
  if endpoint_ids is null then
    return 0;
  end if;
  insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at, created_at)
  select $1, digits || upper(lpad(to_hex(e.number), 5, '0')) || upper(lpad(to_hex(w.number), 5, '0')), e.id, e.type, w.id,
         at_time, at_time
    from (
      select one.*, row_number() over () as number
        from jsonb_to_recordset($2) as one (id text, type text, "hasNewId" boolean)
    ) as e
    join unnest(endpoint_ids, endpoint_types, are_disabled) with ordinality as w (id, types, is_disabled, number)
      on w.types is null or e.type = any (w.types::text[])
   where (e."hasNewId" or are_new[e.number]) and not w.is_disabled;
  get diagnostics written = row_count;
  -- Only an idle loop holds this lock, and is notified when we commit. Otherwise we share the lock, which keeps loops
  -- from becoming idle until we commit, so they keep polling. NOTIFY would serialize all commits of a busy database.
  if written > 0 and not pg_try_advisory_xact_lock_shared(1768189029) then
    perform pg_notify('business_api_deliveries', '');
    written := 0;
  end if;
  if true = any (are_disabled) then
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at)
    select $1, digits || upper(lpad(to_hex(e.number), 5, '0')) || upper(lpad(to_hex(w.number), 5, '0')), e.id, e.type, w.id,
           'skipped', 'endpoint_disabled', at_time, at_time
      from (
        select one.*, row_number() over () as number
          from jsonb_to_recordset($2) as one (id text, type text, "hasNewId" boolean)
      ) as e
      join unnest(endpoint_ids, endpoint_types, are_disabled) with ordinality as w (id, types, is_disabled, number)
        on w.types is null or e.type = any (w.types::text[])
     where (e."hasNewId" or are_new[e.number]) and w.is_disabled;
  end if;
  return written;
end
$$;

-- Publishes an event from any language as part of the host's own transaction, including rollbacks. Returns the event's
-- ID, which is sent as a header. Publishing the same ID again is a no-op that keeps the first event. The `data` of each
-- type is described under `webhooks` in the API's OpenAPI document. `traceparent` is the host's current trace for the
-- event's attempts, in the format of W3C Trace Context version 00. Anything else is ignored.
create function business_api.publish_event(
  organization_id text, type text, data jsonb, id text default null, traceparent text default null
) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  event_id text := coalesce(id, business_api.new_id('evt'));
  created_at text := to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
  subject text := business_api.event_subjects() ->> type;
begin
  if organization_id is null or char_length(organization_id) not between 1 and 64 then
    raise exception 'Cannot publish an event because its organization id is not 1 to 64 characters'
      using errcode = 'invalid_parameter_value';
  end if;
  if subject is null then
    select t.subject into subject from business_api.event_types t where t.organization_id = '' and t.type = $2;
    if not found then
      raise exception 'Cannot publish an event because % is not a type of event', coalesce(type, 'null')
        using errcode = 'invalid_parameter_value', hint = 'The command migrate with --service registers the types of a service.';
    end if;
  end if;
  if data is null or jsonb_typeof(data) <> 'object' then
    raise exception 'Cannot publish % because its data is not a JSON object', type using errcode = 'invalid_parameter_value';
  end if;
  if event_id !~ '^[!-~]{1,64}$' then
    raise exception 'Cannot publish % because its id is not 1 to 64 visible ASCII characters', type
      using errcode = 'invalid_parameter_value';
  end if;
  if (
    select p.is_here from business_api.shard_places p
     where p.organization_id = $1 order by p.version desc limit 1
  ) is false then
    perform business_api.reject_elsewhere(organization_id);
  end if;
  perform business_api.insert_events(organization_id, jsonb_build_array(jsonb_build_object(
    'id', event_id,
    'hasNewId', id is null,
    'type', type,
    'traceparent', case
      when traceparent ~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' then traceparent
    end,
    'subjectId', substring(data ->> subject from '^.{1,64}$'),
    'body', format(
      '{"id":%s,"type":%s,"createdAt":%s,"data":%s}',
      to_json(event_id), to_json(type), to_json(created_at), data
    )
  )));
  return event_id;
end
$$;

-- Accepts data as json (for example from row_to_json) or text, because PostgreSQL doesn't cast these automatically.
create function business_api.publish_event(
  organization_id text, type text, data json, id text default null, traceparent text default null
) returns text
language sql volatile
as $$
  select business_api.publish_event(organization_id, type, data::pg_catalog.jsonb, id, traceparent)
$$;

create function business_api.publish_event(
  organization_id text, type text, data text, id text default null, traceparent text default null
) returns text
language sql volatile
as $$
  select business_api.publish_event(organization_id, type, data::pg_catalog.jsonb, id, traceparent)
$$;
