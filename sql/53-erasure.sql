-- Replaces a business's personal values in a JSON string with `forgotten`, wherever it appears. All other bytes are
-- kept, because a json value returns its parts exactly as written. The paths cover event bodies and stored replies.
create function business_api.forget_business_in(body text, business_id text, forgotten jsonb) returns text
language plpgsql immutable
set search_path = ''
as $$
declare
  path text;
  shown json;
begin
  if strpos(body, to_json(business_id)::text) = 0 then
    return body;
  end if;
  foreach path in array array[
    '{}', '{business}', '{client,business}', '{data}', '{data,business}', '{data,client,business}'
  ] loop
    shown := body::json #> path::text[];
    if json_typeof(shown) = 'object' and shown ->> 'id' = business_id and shown ->> 'name' is not null then
      body := replace(body, shown::text, (
        select '{' || string_agg(to_json(f.key)::text || ':' || coalesce((forgotten -> f.key)::text, f.value::text), ',') || '}'
          from json_each(shown) as f
      ));
    end if;
  end loop;
  return body;
end
$$;

-- Removes a business's personal data from event bodies and replies in batches. See OrganizationStore.forgetPart in
-- lib/access/organizations.ts. The first part, which changes the records, is in lib/postgres/organizations.ts. `after`
-- is a JSON array with the table and the key of the last row that was read. Each pass follows a primary key. Returns
-- the number of changed rows by table and the next `after`.
create function business_api.forget_business_part(
  organization_id text, business_id text, forgotten jsonb, part_limit integer, after jsonb, types_without_business text[]
) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  counts jsonb := '{}';
  changed bigint;
  inspected integer := 0;
  entry record;
  matching text[] := '{}';
  next jsonb;
begin
  if after ->> 0 = 'events' then
    for entry in
      select e.id, e.type, e.body from business_api.events e
       where e.organization_id = $1 and e.id > after ->> 1
       order by e.id limit part_limit
    loop
      inspected := inspected + 1;
      next := jsonb_build_array('events', entry.id);
      -- Separate conditions because only the second one reads the body.
      if entry.type <> all (types_without_business) then
        if strpos(entry.body, to_json($2)::text) > 0 then
          matching := matching || entry.id;
        end if;
      end if;
    end loop;
    update business_api.events e set body = business_api.forget_business_in(e.body, $2, $3)
     where e.organization_id = $1 and e.id = any (matching) and e.body <> business_api.forget_business_in(e.body, $2, $3);
    get diagnostics changed = row_count;
    counts := counts || jsonb_build_object('events', changed);
    update business_api.delivery_attempts a set body_excerpt = '', location = null, headers = null
     where matching <> '{}' and a.organization_id = $1 and (a.body_excerpt <> '' or a.location is not null or a.headers is not null) and a.delivery_id = any (array(
       select d.id
         from business_api.events e
         cross join lateral business_api.deliveries_of_event($1, e.id, e.delivery_prefix) as d
        where e.organization_id = $1 and e.id = any (matching)
     ));
    get diagnostics changed = row_count;
    counts := counts || jsonb_build_object('delivery_attempts', changed);
    if inspected < part_limit then
      next := jsonb_build_array('idempotency_keys', '', '');
    end if;

  else
    changed := 0;
    for entry in
      select k.operation, k.key, k.reply from business_api.idempotency_keys k
       where k.organization_id = $1 and (k.operation, k.key) > (after ->> 1, after ->> 2)
       order by k.operation, k.key limit part_limit
    loop
      inspected := inspected + 1;
      next := jsonb_build_array('idempotency_keys', entry.operation, entry.key);
      if business_api.forget_business_in(entry.reply, $2, $3) <> entry.reply then
        update business_api.idempotency_keys k set reply = business_api.forget_business_in(k.reply, $2, $3)
         where k.organization_id = $1 and k.operation = entry.operation and k.key = entry.key;
        changed := changed + 1;
      end if;
    end loop;
    counts := counts || jsonb_build_object('idempotency_keys', changed);
    if inspected < part_limit then
      next := null;
    end if;
  end if;
  return jsonb_build_object('counts', counts, 'next', next);
end
$$;
select business_api.forbid_plans('forget_business_part');
