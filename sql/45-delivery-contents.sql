-- Returns the contents of deliveries whose claims are active. See ClaimStore.read in lib/webhooks/claims.ts.
create function business_api.read_claims(claims jsonb) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  organizations text[];
  ids text[];
begin
  select array_agg(d.organization_id order by claim.place), array_agg(d.id order by claim.place) into organizations, ids
    from jsonb_array_elements($1) with ordinality as claim (ref, place)
    cross join lateral (
      select o.organization_id, o.id from business_api.open_deliveries o
       where o.organization_id = claim.ref ->> 'organizationId' and o.id = claim.ref ->> 'deliveryId'
         and o.claim_token = claim.ref ->> 'token'
       limit 1
    ) as d;
  return coalesce(business_api.read_deliveries(organizations, ids)::text, '[]');
end
$$;
select business_api.forbid_plans('read_claims');

-- Returns the contents of deliveries as a JSON array in argument order, omitting those to removed endpoints, since the
-- signing secret is gone. A trace is spliced into the delivery's JSON, so deliveries without one don't get any larger.
create function business_api.read_deliveries(organizations text[], ids text[]) returns json
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  at_time timestamptz := clock_timestamp();
  -- The range of the deliveries, so the statement only opens their days.
  first_prefix text;
  last_id text;
begin
  select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
    from unnest($2) as claim (id);
  return (
    select coalesce(json_agg(
             case
               when event.traceparent is null then delivery.content
               else ('{"traceparent":' || to_json(event.traceparent) || ',' || substr(delivery.content::text, 2))::json
             end
             order by claim.place
           ), '[]')
      from unnest(organizations, ids) with ordinality as claim (organization_id, id, place)
      -- Rows are looked up individually, because a plan made while the tables were empty would join the whole period.
      cross join lateral (
        select * from business_api.open_deliveries o
         where o.organization_id = claim.organization_id and o.id = claim.id
         limit 1
      ) as d
      cross join lateral (
        select e.type, e.body, e.traceparent from business_api.events e
         where e.organization_id = claim.organization_id and e.id = d.event_id
           and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
           and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
         order by e.delivery_prefix limit 1
      ) as event
      join business_api.webhook_endpoints endpoint
        on endpoint.organization_id = d.organization_id and endpoint.id = d.endpoint_id and endpoint.state <> 'removed'
     cross join lateral (
       select json_build_object(
                'organizationId', d.organization_id, 'id', d.id, 'endpointId', d.endpoint_id, 'eventId', d.event_id,
                'type', event.type, 'body', event.body, 'endpoint', business_api.endpoint_target(endpoint, at_time),
                'attempt', d.attempts - d.attempts_before
              ) as content
     ) as delivery
  );
end
$$;
select business_api.forbid_plans('read_deliveries', 'enable_sort');
