-- Replies stored under idempotency keys. A key belongs to the organization and operation and not to the API key, so
-- requests are still replayed after a key rotation. An entry ends at expires_at, no matter when it's purged. record_id
-- is the ID of the created record or the change, by which a retried statement recognizes its own entry.
create table business_api.idempotency_keys (
  organization_id text collate "C" not null,
  operation text collate "C" not null,
  key text collate "C" not null,
  fingerprint text collate "C" not null,
  record_id text collate "C" not null,
  reply text not null,
  expires_at timestamptz not null,
  constraint idempotency_keys_pkey primary key (organization_id, operation, key)
);

create index idempotency_keys_expires_at_idx on business_api.idempotency_keys (expires_at);

-- Deletes expired idempotency keys, starting at the given expiry because the dead rows of earlier ones would slow down
-- the scan until the next vacuum. Returns the number of deleted keys and the latest expiry among them.
create function business_api.purge_idempotency_keys(
  expired_from timestamptz, key_limit integer, out purged integer, out latest timestamptz
)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
begin
  with expired as materialized (
    select k.organization_id, k.operation, k.key from business_api.idempotency_keys k
     where k.expires_at <= now() and k.expires_at >= expired_from
     order by k.expires_at
     limit key_limit
       for update skip locked
  ), gone as (
    delete from business_api.idempotency_keys k using expired
     where k.organization_id = expired.organization_id and k.operation = expired.operation and k.key = expired.key
    returning k.expires_at
  )
  select count(*), coalesce(max(gone.expires_at), expired_from) into purged, latest from gone;
end
$$;
select business_api.forbid_plans('purge_idempotency_keys');
