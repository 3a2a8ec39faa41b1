-- What was answered under an idempotency key. The key belongs to the organization and the operation, not to the API
-- key, so a rotated API key still replays. expires_at decides, not the purge. record_id is the id of the record that
-- was created: it lets an attempt whose answer was lost recognize its own entry.

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
