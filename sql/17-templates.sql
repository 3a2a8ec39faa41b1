-- Templates with values that only the store knows, filled in by the statement that writes the record.

-- Replaces the placeholders in a JSON string with values from the record or from `more`. See
-- lib/writes/placeholders.ts. A placeholder is a JSON string that starts with NUL. Stored text can't contain NUL, so no
-- other string looks like one. A placeholder with no value is an error, because subscribers would receive it.
create function business_api.render_template(template text, record json, more json default '{}') returns text
language plpgsql immutable
set search_path = ''
as $$
declare
  rendered text := template;
  value record;
begin
  for value in
    select f.key, f.value::text as text from json_each(more) f
    union all select '', record::text
    union all select f.key, f.value::text from json_each(record) f
  loop
    -- E'…' doesn't depend on standard_conforming_strings, which the host's transaction may have changed.
    rendered := replace(rendered, E'"\\u0000' || value.key || '"', value.text);
  end loop;
  if strpos(rendered, E'"\\u0000') > 0 then
    raise exception 'Cannot render a template because a placeholder in it has no value';
  end if;
  return rendered;
end
$$;

-- Replaces the placeholders in event bodies.
create function business_api.render_events(events jsonb, record json, more json default '{}') returns jsonb
language sql immutable
set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_set(e.event, '{body}', to_jsonb(business_api.render_template(e.event ->> 'body', record, more)))
      order by e.position
    ),
    '[]'
  )
  from jsonb_array_elements(events) with ordinality as e (event, position)
$$;
