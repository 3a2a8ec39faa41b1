-- Claims: delivery loops take deliveries, and give deliveries back. 0016-due-deliveries.sql says why each function limits the
-- planner.
-- Locks: nothing in use; every object is new.

-- Picks due deliveries of backfills for a claim, after all other deliveries, by the same round robin and within the capacity that
-- the claim has left. If the claim has not inspected every endpoint (`is_rest` is false), an organization with another delivery to
-- be sent is left out: the next claim may take that delivery. The picked deliveries are locked; the claim changes them.
create function business_api.pick_backfills(
  at_time timestamptz,
  is_rest boolean,
  pick_limit integer,
  endpoint_limit integer,
  after_organization text,
  after_endpoint text,
  endpoint_budget integer,
  organization_budget integer,
  endpoint_budgets jsonb,
  organization_budgets jsonb,
  claimed_organizations text[],
  claimed_endpoints text[],
  out organizations text[],
  out ids text[],
  out endpoints text[],
  out events text[],
  out here_organization text,
  out here_endpoint text,
  out is_complete boolean
)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  next_organization text;
  next_endpoint text;
  endpoint_state text;
  budget integer;
  found_ids text[];
  found_events text[];
  endpoints_read integer := 0;
  has_wrapped boolean := after_organization is null;
begin
  organizations := '{}';
  ids := '{}';
  endpoints := '{}';
  events := '{}';
  here_organization := coalesce(after_organization, '');
  here_endpoint := coalesce(after_endpoint, '');
  is_complete := false;
  while cardinality(ids) < pick_limit and endpoints_read < endpoint_limit loop
    select d.organization_id, d.endpoint_id into next_organization, next_endpoint
      from business_api.open_deliveries d
     where d.claim_token is null and not d.is_backing_off and d.is_backfill
       and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
     order by d.organization_id, d.endpoint_id
     limit 1;
    if not found then
      is_complete := has_wrapped;
      exit when has_wrapped;
      has_wrapped := true;
      here_organization := '';
      here_endpoint := '';
      continue;
    end if;
    if has_wrapped and after_organization is not null
       and (next_organization, next_endpoint) > (after_organization, after_endpoint) then
      is_complete := true;
      exit;
    end if;
    here_organization := next_organization;
    here_endpoint := next_endpoint;
    endpoints_read := endpoints_read + 1;

    select e.state into endpoint_state from business_api.webhook_endpoints e
     where e.organization_id = here_organization and e.id = here_endpoint;
    if endpoint_state = 'paused' then
      continue;
    elsif endpoint_state is distinct from 'enabled' then
      perform business_api.skip_pending(here_organization, here_endpoint);
      continue;
    end if;
    if not is_rest and exists (
      select 1 from business_api.webhook_endpoints e
       where e.organization_id = here_organization and e.state = 'enabled' and exists (
         select 1 from business_api.open_deliveries d
          where d.claim_token is null and not d.is_backing_off and not d.is_backfill
            and d.organization_id = e.organization_id and d.endpoint_id = e.id
       )
    ) then
      continue;
    end if;

    budget := least(
      pick_limit - cardinality(ids),
      coalesce((endpoint_budgets ->> here_endpoint)::integer, endpoint_budget)
        - coalesce(cardinality(array_positions(claimed_endpoints, here_endpoint)), 0),
      coalesce((organization_budgets ->> here_organization)::integer, organization_budget)
        - coalesce(cardinality(array_positions(claimed_organizations || organizations, here_organization)), 0)
    );
    if budget > 0 then
      select coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.event_id), '{}') into found_ids, found_events
        from (
          select d.id, d.event_id from business_api.open_deliveries d
           where d.claim_token is null and not d.is_backing_off and d.is_backfill
             and d.organization_id = here_organization and d.endpoint_id = here_endpoint
           order by d.is_retry, d.id limit budget for update skip locked
        ) as f;
      ids := ids || found_ids;
      events := events || found_events;
      organizations := organizations || array_fill(here_organization, array[cardinality(found_ids)]);
      endpoints := endpoints || array_fill(here_endpoint, array[cardinality(found_ids)]);
    end if;
  end loop;
end
$$;
