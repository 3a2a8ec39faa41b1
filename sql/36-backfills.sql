-- Backfills send an event to an endpoint for each older record, in batches of one statement each. Event IDs are derived
-- from the endpoint, the type and the record, so repeating a batch is a no-op, and an interrupted backfill is resumed
-- by starting over.

-- Processes a batch of a backfill. See BackfillStore.backfill in lib/webhooks/backfill.ts. `records` has the next
-- records by ID up to the limit, with `id`, `businessId` and `representation`. Returns the outcome as JSON, or null if
-- the endpoint doesn't exist. Skips a record if its creation event has a pending or successful delivery to the
-- endpoint.
create function business_api.backfill_part(
  organization_id text, endpoint_id text, type text, template text, record_limit integer, records jsonb, entry jsonb
) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  at_time timestamptz := date_trunc('milliseconds', clock_timestamp());
  created_text text := to_char(at_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
  digits text := business_api.delivery_digits(at_time);
  endpoint record;
  -- The batch, and the IDs of its records for which the endpoint already has an event.
  batch jsonb;
  announced text[];
  -- IDs of the new events, with their delivery prefixes.
  taken jsonb;
  batch_events jsonb;
  made integer;
begin
  select e.state, e.types into endpoint from business_api.webhook_endpoints e
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

  perform business_api.ensure_day(at_time);
  select coalesce(jsonb_agg(r.record || jsonb_build_object(
           'eventId', 'evt_backfill_'
             || left(encode(sha256(convert_to($2 || ' ' || $3 || ' ' || (r.record ->> 'id'), 'UTF8')), 'hex'), 32)
         ) order by r.record ->> 'id' collate "C"), '[]')
    into batch
    from jsonb_array_elements($6) as r (record);

  select array_agg(b.id) into announced
    from jsonb_to_recordset(batch) as b (id text)
   where exists (
     select 1
       from business_api.events_of_subject($1, b.id) as event
       cross join lateral business_api.deliveries_of_event($1, event.id, event.delivery_prefix) as delivery
      where event.type = $3 and event.only_endpoint_id is null
        and delivery.endpoint_id = $2 and delivery.state in ('pending', 'sending', 'delivered')
   );

  with inserted as (
    insert into business_api.event_ids as i (organization_id, id, delivery_prefix)
    select $1, b.event_id, digits || upper(lpad(to_hex(b.number), 5, '0'))
      from (
        select wanted."eventId" as event_id, row_number() over () as number
          from jsonb_to_recordset(batch) as wanted (id text, "eventId" text)
         where wanted.id <> all (coalesce(announced, '{}'))
      ) as b
    on conflict do nothing
    returning i.id, i.delivery_prefix
  )
  select coalesce(jsonb_object_agg(i.id, i.delivery_prefix), '{}') into taken from inserted i;
  select coalesce(jsonb_agg(jsonb_build_object(
           'id', b."eventId", 'subjectId', b.id, 'prefix', taken ->> b."eventId",
           'body', business_api.render_template($4, b.representation::json, json_build_object(
             'eventId', b."eventId", 'eventCreatedAt', created_text, 'businessId', b."businessId"
           ))
         )), '[]')
    into batch_events
    from jsonb_to_recordset(batch) as b (id text, "businessId" text, representation text, "eventId" text)
   where taken ? b."eventId";
  insert into business_api.events (organization_id, id, type, body, only_endpoint_id, subject_id, delivery_prefix)
  select $1, e.id, $3, e.body, $2, e."subjectId", e.prefix
    from jsonb_to_recordset(batch_events) as e (id text, body text, "subjectId" text, prefix text);
  insert into business_api.open_deliveries
    (organization_id, id, event_id, type, endpoint_id, due_at, created_at, is_backfill)
  select $1, e.prefix || '00001', e.id, $3, $2, at_time, at_time, true
    from jsonb_to_recordset(batch_events) as e (id text, prefix text);
  get diagnostics made = row_count;

  if made > 0 then
    perform business_api.count_in_entry($1, entry, 'events', made);
  end if;
  return json_build_object(
    'outcome', 'done', 'examined', jsonb_array_length(batch), 'events', made,
    'next', case when jsonb_array_length(batch) = record_limit then batch -> -1 ->> 'id' end
  )::text;
end
$$;
select business_api.forbid_plans('backfill_part');
