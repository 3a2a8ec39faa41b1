-- Webhook endpoints with their signing secrets and health, and notices about both.
create table business_api.webhook_endpoints (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  url text not null,
  types text[],
  state text not null,
  created_at timestamptz not null,
  -- Number of changes made by `update`, for detecting concurrent changes.
  version integer not null default 0,
  description text not null default '',
  -- Custom header names, and the names with their values, sealed like the signing secret. Null if there are none.
  header_names text[] not null default '{}',
  sealed_headers text,
  -- If true, Standard Webhooks headers are sent as well.
  standard_webhooks boolean not null default false,
  -- The organization's limit on deliveries per second, or null for no limit. See 44-endpoint-rates.sql.
  max_per_second double precision,
  -- Sealed by the application (AES-256-GCM). Null once the endpoint has been removed.
  sealed_secret text,
  previous_sealed_secret text,
  previous_secret_expires_at timestamptz,
  disabled_reason text,
  failures integer not null default 0,
  failing_since timestamptz,
  -- The attempt whose result made the endpoint failing or disabled. If the report's result is lost, it's repeated.
  noticed_attempt text collate "C",
  -- The last announced expiry of the previous secret, and the token of the call that claimed the notice.
  secret_expiry_noticed timestamptz,
  secret_expiry_noticed_by text collate "C",
  constraint webhook_endpoints_pkey primary key (organization_id, id),
  constraint webhook_endpoints_state_check check (state in ('enabled', 'paused', 'disabled', 'removed'))
) with (fillfactor = 50);

create index webhook_endpoints_previous_secret_expires_at_idx
  on business_api.webhook_endpoints (previous_secret_expires_at) where previous_secret_expires_at is not null;

-- Erases up to this many previous secrets whose overlap has ended, and returns how many. Runs with the schema owner's
-- privileges because workers aren't allowed to change secrets.
create function business_api.erase_ended_secrets(part_limit integer) returns bigint
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
  with ended as (
    select organization_id, id from business_api.webhook_endpoints
     where previous_secret_expires_at <= now()
     order by previous_secret_expires_at
     limit part_limit
     for no key update skip locked
  ), erased as (
    update business_api.webhook_endpoints endpoint
       set previous_sealed_secret = null, previous_secret_expires_at = null
      from ended
     where endpoint.organization_id = ended.organization_id and endpoint.id = ended.id
    returning 1
  )
  select count(*) from erased
$$;

revoke execute on function business_api.erase_ended_secrets(integer) from public;

-- For the purge, which deletes a removed endpoint once its last delivery is gone.
create index webhook_endpoints_removed_idx
  on business_api.webhook_endpoints (organization_id, id) where state = 'removed';

-- Inserts an endpoint with the columns in `new_endpoint`. See EndpointStore.insert. Returns the endpoint with this ID,
-- even a removed one, and true if this call inserted it. Returns no row if the organization has reached its limit.
create function business_api.insert_endpoint(organization_id text, new_endpoint jsonb, endpoint_limit integer)
returns table (is_new boolean, endpoint business_api.webhook_endpoints)
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform business_api.take_settings_turn($1);
  is_new := false;
  select e.* into endpoint from business_api.webhook_endpoints e
   where e.organization_id = $1 and e.id = new_endpoint ->> 'id';
  if not found then
    if (
      select count(*) from business_api.webhook_endpoints e where e.organization_id = $1 and e.state <> 'removed'
    ) >= endpoint_limit then
      return;
    end if;
    is_new := true;
    endpoint := jsonb_populate_record(null::business_api.webhook_endpoints, new_endpoint || jsonb_build_object(
      'organization_id', $1, 'state', 'enabled', 'version', 0, 'failures', 0
    ));
    insert into business_api.webhook_endpoints select endpoint.*;
  end if;
  return next;
end
$$;

-- Returns an endpoint's data for an attempt. See EndpointTarget in lib/webhooks/endpoints.ts.
create function business_api.endpoint_target(endpoint business_api.webhook_endpoints, at_time timestamptz) returns json
language sql stable
as $$
select json_build_object(
  'url', (endpoint).url, 'headerNames', (endpoint).header_names, 'sealedHeaders', (endpoint).sealed_headers,
  'standardWebhooks', (endpoint).standard_webhooks,
  'sealedSecrets', case
    when (endpoint).previous_secret_expires_at > at_time
    then json_build_array((endpoint).sealed_secret, (endpoint).previous_sealed_secret)
    else json_build_array((endpoint).sealed_secret)
  end
)
$$;
