-- The replies stored under idempotency keys. A key belongs to the organization and the operation, not to the API key, so that
-- a rotated API key still gets its replays. expires_at decides, not the purge. record_id is the id of the record that was
-- created: a statement that is sent again because its answer was lost recognizes its own entry by it.
-- Locks: nothing in use; every object is new.

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
