-- The trace in which an event was written goes with the event to the attempts of the deliveries.
-- Locks: business_api.events for an instant, because a column without a default rewrites nothing.

-- A W3C traceparent, 55 characters; null: no trace. The tracestate, up to 512 bytes of other parties, is not kept: a link from an
-- attempt's span to the trace needs the ids and flags only. An event without a trace takes no byte more: a row of events has a bitmap
-- of nulls anyway, and the bitmap of up to eight columns has one byte.
alter table business_api.events add column traceparent text;

-- Publishes an event from any language, inside the host's own transaction; a rollback takes the event back. Returns the event's
-- id, which becomes the value of a header. A second call with the same id changes nothing: the first event stands. The API's
-- OpenAPI document describes the `data` of each type, under `webhooks`. `traceparent` is the host's current trace in the form of W3C
-- Trace Context, version 00, for the event's attempts; a value in another form counts as none. No argument has a default, because a
-- call with four arguments would fit two functions.
create function business_api.publish_event(
  organization_id text, type text, data jsonb, id text, traceparent text
) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  event_id text := coalesce(id, business_api.new_id('evt'));
  created_at text := to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
begin
  if organization_id is null or char_length(organization_id) not between 1 and 64 then
    raise exception 'Cannot publish an event because its organization id is not 1 to 64 characters'
      using errcode = 'invalid_parameter_value';
  end if;
  if type is null or type <> all (business_api.event_types()) then
    raise exception 'Cannot publish an event because % is not a type of event', coalesce(type, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  if data is null or jsonb_typeof(data) <> 'object' then
    raise exception 'Cannot publish % because its data is not a JSON object', type using errcode = 'invalid_parameter_value';
  end if;
  if event_id !~ '^[!-~]{1,64}$' then
    raise exception 'Cannot publish % because its id is not 1 to 64 visible ASCII characters', type
      using errcode = 'invalid_parameter_value';
  end if;
  perform business_api.insert_events(organization_id, jsonb_build_array(jsonb_build_object(
    'id', event_id,
    'hasNewId', id is null,
    'type', type,
    'createdAt', created_at,
    'traceparent', case
      when traceparent ~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' then traceparent
    end,
    'body', format(
      '{"id":%s,"type":%s,"createdAt":%s,"data":%s}',
      to_json(event_id), to_json(type), to_json(created_at), data
    )
  )));
  return event_id;
end
$$;

-- The same without a trace. It is replaced and not dropped, because a drop fails the calls that run at that moment.
create or replace function business_api.publish_event(
  organization_id text, type text, data jsonb, id text default null
) returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  return business_api.publish_event(organization_id, type, data, id, null);
end
$$;
