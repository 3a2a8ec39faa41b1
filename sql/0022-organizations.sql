-- The deletion of an organization.
-- Locks: nothing in use; every object is new.

-- Deletes a part of everything that belongs to an organization: see OrganizationStore.deletePart in lib/access/organizations.ts.
-- API keys and endpoints end with the first part, so that no request and no publishing adds anything, and are deleted last. A
-- delivery in flight is deleted too, and its result, which is fenced by the claim's token, finds nothing. Each table is read along
-- its primary key, which begins with the organization. Returns, as JSON, the number of deleted rows of each table.
create function business_api.delete_organization_part(organization_id text, part_limit integer) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  -- Referring tables come before the tables that they refer to.
  target text[];
  deleted bigint;
  remaining bigint := part_limit;
  counts jsonb := '{}';
  at_time timestamptz := clock_timestamp();
begin
  update business_api.api_keys k set revoked_at = at_time
   where k.organization_id = $1 and (k.revoked_at is null or k.revoked_at > at_time);
  update business_api.webhook_endpoints e
     set state = 'removed', sealed_secret = null, previous_sealed_secret = null, previous_secret_expires_at = null,
         sealed_headers = null
   where e.organization_id = $1 and e.state <> 'removed';

  foreach target slice 1 in array array[
    ['delivery_attempts', 'delivery_id, number'],
    ['deliveries', 'id'],
    ['events', 'id'],
    ['idempotency_keys', 'operation, key'],
    ['payments', 'id'],
    ['invoices', 'id'],
    ['leads', 'id'],
    ['clients', 'id'],
    ['businesses', 'id'],
    ['proposals', 'id'],
    ['projects', 'id'],
    ['number_series', 'series'],
    ['audit_entries', 'id'],
    ['webhook_endpoints', 'id'],
    ['organization_limits', 'organization_id'],
    ['rate_buckets', 'bucket'],
    ['settings_turns', 'organization_id'],
    ['api_keys', 'id']
  ] loop
    exit when remaining <= 0;
    execute format(
      'with gone as (
         delete from business_api.%1$I
          where organization_id = $1 and (organization_id, %2$s) in (
            select organization_id, %2$s from business_api.%1$I where organization_id = $1 order by %2$s limit $2
          )
         returning 1
       )
       select count(*) from gone',
      target[1], target[2]
    ) using $1, remaining into deleted;
    remaining := remaining - deleted;
    if deleted > 0 then
      counts := counts || jsonb_build_object(target[1], deleted);
    end if;
  end loop;
  return counts;
end
$$;
