-- Retention: old rows are purged in bounded parts, and each part continues after the previous part. A part costs the same with a
-- million deliveries and with ten million. 0016-due-deliveries.sql says why each function limits the planner. The functions that
-- purge are planned anew for each part, which costs little beside the part: a plan from a time when the tables were empty may
-- read all deliveries of an organization for each event.
--
-- Locks: nothing in use; every object is new.

-- The progress of the purge that all delivery loops share: a single row for the whole database. A part of the purge locks the
-- row, so that one process at a time purges. On a distributed database this is a reference table.
create table business_api.purge_progress (
  organization_id text collate "C" not null default '',
  -- Age at which the latest part purged events; before the first part, the default of a delivery loop.
  retention_ms double precision not null default 2592000000,
  -- The place of the purge in events_created_at_idx, and in the expiries of idempotency keys. The walk starts over only if the
  -- place is beyond the old events: the clock was ahead, or the retention is longer now.
  walk jsonb not null default '{}',
  -- The place of a second purge, which begins with the oldest event each hour: for events that the first purge had to keep, for
  -- events published with an old created_at, and for removed endpoints. Null while no second purge is under way.
  revisit jsonb,
  revisited_at timestamptz not null default '-infinity',
  -- The next part begins no earlier, so that the purge takes a fixed share of the time for any number of processes.
  rests_until timestamptz not null default '-infinity',
  -- Time of the latest successful part; null before the first.
  purged_at timestamptz,
  constraint purge_progress_pkey primary key (organization_id),
  constraint purge_progress_organization_id_check check (organization_id = '')
);
insert into business_api.purge_progress default values;

-- Purges expired idempotency keys, from an expiry on. Earlier expiries were inspected before, and their deleted rows would only
-- slow the index scan until the next vacuum. Returns the number of purged keys, and the latest expiry among the purged keys.
create function business_api.purge_idempotency_keys(
  expired_from timestamptz, key_limit integer, out purged integer, out latest timestamptz
)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
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
