-- Erasure: the deletion of the personal values of one business.

-- Replaces a business in a JSON text by the business without personal values, at each of the paths. Every other byte of the text
-- stays, because the part of a json value is its very text. The paths are those of the bodies of events and of the replies under
-- idempotency keys.
create function business_api.forget_business_in(body text, business_id text) returns text
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
      body := replace(body, shown::text, business_api.business_representation(business_id, 'Deleted', null, null, null, null));
    end if;
  end loop;
  return body;
end
$$;

-- Removes personal values of a business, part by part: see OrganizationStore.forgetPart in lib/access/organizations.ts. `after` is
-- null for the first part, then a JSON array: the table, and the key of the row that was inspected last. Each pass reads along a
-- primary key. Returns null for an unknown business, else the counts of changed rows by table, and the next `after`.
create function business_api.forget_business_part(
  organization_id text, business_id text, proposal_ids jsonb, part_limit integer, after jsonb
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
  if after is null then
    -- A lead's conversion that has made a client of the business, and is not committed, ends first.
    perform 1 from business_api.businesses b where b.organization_id = $1 and b.id = $2 for update;
    if not found then
      return null;
    end if;
    update business_api.businesses b
       set name = 'Deleted', category = null, city = null, email = null, phone = null, changed_xid = default, updated_at = default
     where b.organization_id = $1 and b.id = $2
       and (b.name, b.category, b.city, b.email, b.phone) is distinct from ('Deleted', null, null, null, null);
    get diagnostics changed = row_count;
    counts := counts || jsonb_build_object('businesses', changed);
    update business_api.proposals p set signed_by = 'Deleted', changed_xid = default, updated_at = default
     where p.organization_id = $1 and p.id = any (array(select jsonb_array_elements_text($3))) and p.signed_by <> 'Deleted';
    get diagnostics changed = row_count;
    counts := counts || jsonb_build_object('proposals', changed);
    next := jsonb_build_array('events', '');

  elsif after ->> 0 = 'events' then
    for entry in
      select e.id, e.type, e.body from business_api.events e
       where e.organization_id = $1 and e.id > after ->> 1
       order by e.id limit part_limit
    loop
      inspected := inspected + 1;
      next := jsonb_build_array('events', entry.id);
      -- The types that name a business; the first two show it too. Two conditions, because only the second one reads the body.
      if entry.type in (
        'business.created', 'client.created', 'lead.created', 'lead.stage_changed', 'marketing.lead_captured'
      ) then
        if strpos(entry.body, to_json($2)::text) > 0 then
          matching := matching || entry.id;
        end if;
      end if;
    end loop;
    update business_api.events e set body = business_api.forget_business_in(e.body, $2)
     where e.organization_id = $1 and e.id = any (matching) and e.body <> business_api.forget_business_in(e.body, $2);
    get diagnostics changed = row_count;
    counts := counts || jsonb_build_object('events', changed);
    update business_api.delivery_attempts a set body_excerpt = ''
     where matching <> '{}' and a.organization_id = $1 and a.body_excerpt <> '' and a.delivery_id = any (array(
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
      if business_api.forget_business_in(entry.reply, $2) <> entry.reply then
        update business_api.idempotency_keys k set reply = business_api.forget_business_in(k.reply, $2)
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
