-- The replies stored under idempotency keys. A key belongs to the organization and the operation, not to the API key, so that
-- a rotated API key still gets replays. An entry ends at expires_at, not with the purge. record_id is the id of the created
-- record or of the change: a statement that is sent again because the answer was lost recognizes its own entry by record_id.
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
