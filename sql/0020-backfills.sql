-- Backfills: an event for each record that existed before an endpoint did, to that endpoint only. The work is done in bounded
-- parts, one statement each. The ids of the events are made from endpoint, type and record, so that a part that is done again
-- writes nothing, and a backfill that was interrupted is resumed by doing all of it again.
-- Locks: nothing in use; every object is new.

-- Returns the moment in a record's id, `<kind>_<ulid>`; null for an id of another form, as imported records may have.
create function business_api.id_time(id text) returns timestamptz
language sql immutable
set search_path = ''
as $$
  select case when id ~ '_[0-7][0-9A-HJKMNP-TV-Z]{25}$' then to_timestamp((
    select sum(
      (strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(right(id, 26), place, 1)) - 1)::bigint << (5 * (10 - place))
    ) from generate_series(1, 10) as place
  ) / 1000.0) end
$$;

-- Reads the next records with an event of a type, in the order of the ids: the representation of each, and its business.
create function business_api.backfill_records(organization_id text, type text, after_id text, record_limit integer)
returns table (id text, business_id text, representation text)
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  if $2 = 'business.created' then
    return query
      select r.id, r.id, r.representation from business_api.businesses r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  elsif $2 = 'client.created' then
    return query
      select r.id, r.business_id, left(r.representation, -1) || ',"business":' || b.representation || '}'
        from (
          select c.organization_id, c.id, c.business_id, c.representation from business_api.clients c
           where c.organization_id = $1 and c.id > $3 order by c.id limit $4
        ) as r
        join business_api.businesses b on b.organization_id = r.organization_id and b.id = r.business_id;
  elsif $2 = 'lead.created' then
    return query
      select r.id, r.business_id, r.representation from business_api.leads r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  elsif $2 = 'proposal.created' then
    return query
      select r.id, null::text, r.representation from business_api.proposals r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  else
    raise exception 'Cannot backfill % because no record has such an event', $2 using errcode = 'invalid_parameter_value';
  end if;
end
$$;

-- Carries out a part of a backfill: see BackfillStore.backfill in lib/webhooks/backfill.ts. Returns, as JSON, the outcome; null
-- if there is no such endpoint. A record is left out if the event of its creation has a delivery to the endpoint that was made or
-- is still to be made. The events of the seconds in which the records of the part were created are searched for such a delivery;
-- records from before the endpoint are not, because they cannot have any.
create function business_api.backfill_part(
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
  endpoint record;
  examined integer;
  last_id text;
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

  with batch as materialized (
    select r.id, r.business_id, r.representation,
           floor(extract(epoch from business_api.id_time(r.id)))::bigint as second,
           'evt_backfill_' || left(encode(sha256(convert_to($2 || ' ' || $3 || ' ' || r.id, 'UTF8')), 'hex'), 32) as event_id
      from business_api.backfill_records($1, $3, $5, $6) as r
  ), second as materialized (
    -- A second before and after, because the clock of a process may step back between the id and the event.
    select distinct b.second + near.seconds as begins
      from batch b, generate_series(-1, 1) as near (seconds)
     where b.second >= extract(epoch from endpoint.created_at) - 60
  ), announced as materialized (
    -- A publisher in SQL writes a space behind the colon.
    select distinct substring(event.body from '"' || split_part($3, '.', 1) || 'Id": ?"([^"]+)"') as record_id
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
  ), made as (
    insert into business_api.events (organization_id, id, type, created_at, body, only_endpoint_id, delivery_prefix)
    select $1, b.event_id, $3, at_time,
           business_api.render_template($4, b.representation::json, json_build_object(
             'eventId', b.event_id, 'eventCreatedAt', created_text, 'businessId', b.business_id
           )),
           $2, digits || upper(lpad(to_hex(row_number() over (order by b.id)), 5, '0'))
      from batch b
      left join announced a on a.record_id = b.id
     where a.record_id is null
     order by b.id
    on conflict do nothing
    returning id, delivery_prefix
  ), queued as (
    insert into business_api.open_deliveries
      (organization_id, id, event_id, type, endpoint_id, due_at, created_at, is_backfill)
    select $1, made.delivery_prefix || '00001', made.id, $3, $2, at_time, at_time, true
      from made
    returning 1
  )
  select (select count(*) from batch), (select max(b.id) from batch b), (select count(*) from queued)
    into examined, last_id, made;

  if made > 0 then
    insert into business_api.audit_entries as audit
      (organization_id, id, changed_at, actor, action, subject_id, details)
    values (
      $1, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', entry ->> 'subjectId',
      (entry -> 'details') || jsonb_build_object('events', made)
    )
    on conflict (organization_id, id) do update set
      details = audit.details || jsonb_build_object(
        'events', (audit.details ->> 'events')::bigint + (excluded.details ->> 'events')::bigint
      );
  end if;
  return json_build_object(
    'outcome', 'done', 'examined', examined, 'events', made,
    'next', case when examined = record_limit then last_id end
  )::text;
end
$$;
