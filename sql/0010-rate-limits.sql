-- The rate limits. lib/postgres/statements/admission.ts has the statements that judge a request by its key and both limits.
-- Locks: nothing in use; every object is new.

-- The limits of single organizations, for all keys of the organization together, in place of the API's default.
create table business_api.organization_limits (
  organization_id text collate "C" not null,
  per_second double precision not null,
  burst integer not null,
  constraint organization_limits_pkey primary key (organization_id),
  constraint organization_limits_burst_check check (per_second > 0 and burst > 0)
);

-- A bucket is one number: the time at which the bucket will be full again (GCRA), in seconds since 1970. Besides, it counts the tokens
-- that processes have taken for requests to come, in two periods, until the last of each period are void (0025-tokens.sql).
-- UNLOGGED, because a crash only refills the buckets, and a write-ahead record for every request would cost more than the request.
-- Half-empty pages keep the updates of hot rows on the same page.
create unlogged table business_api.rate_buckets (
  organization_id text collate "C" not null,
  bucket text collate "C" not null,
  full_at double precision not null,
  held double precision not null default 0,
  held_until double precision not null default 0,
  held_before double precision not null default 0,
  held_before_until double precision not null default 0,
  constraint rate_buckets_pkey primary key (organization_id, bucket)
) with (fillfactor = 50);
