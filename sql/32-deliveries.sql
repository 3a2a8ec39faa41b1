-- A delivery is in open_deliveries until its last attempt and then in finished_deliveries. The statement that ends a
-- delivery moves its row, and a redelivery moves it back. That way, claims only scan a small table, and the log is
-- written just once. A claim is valid for the duration of its lease, and all later writes check its token.

-- Deliveries that are pending or, if they have a claim_token, being sent.
create table business_api.open_deliveries (
  organization_id text collate "C" not null,
  -- Starts with the event's delivery_prefix.
  id text collate "C" not null,
  -- There's no foreign key because an event and its deliveries are written by one statement. Sessions cache the plan of
  -- a foreign key check, and a plan made for a nearly empty events table scans the whole table for each delivery until
  -- it's analyzed. (After 3,000 creates, the next one took 3.9 ms with the foreign key and 0.4 ms without it.)
  event_id text collate "C" not null,
  -- For the log by type.
  type text not null,
  -- There's no foreign key because every publisher would have to lock the endpoint's row. Removing an endpoint only
  -- changes its state. The row is deleted after the last delivery.
  endpoint_id text collate "C" not null,
  due_at timestamptz not null,
  created_at timestamptz not null default now(),
  -- Number of attempts in all rounds, incremented by claims, and number of attempts before the current round.
  attempts integer not null default 0,
  attempts_before integer not null default 0,
  -- True for a retry that isn't due yet. Not in the index used by claims until promote_due_retries is called.
  is_backing_off boolean not null default false,
  -- True for a backfill, which is claimed after everything else.
  is_backfill boolean not null default false,
  -- The claim order within an endpoint: 0 for first attempts, 1 for retries, 2 for backfills.
  priority smallint not null generated always as (
    case when is_backfill then 2 when attempts > attempts_before then 1 else 0 end
  ) stored,
  -- These three are null while the delivery is pending.
  claim_token text,
  claimed_at timestamptz,
  lease_until timestamptz,
  constraint open_deliveries_pkey primary key (organization_id, id)
-- Every delivery leaves two dead rows, which claims have to skip until the next vacuum. With half-empty pages, a claim
-- finds space for the new version on the same page, and only the difference is written to the WAL (150 bytes less).
-- Claims are never HOT (heap-only) updates, because the index conditions include the claim.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- For claims: endpoint by endpoint, by priority, oldest first. Sorted by id so that the delivery log can use it too.
create index open_deliveries_due_idx
  on business_api.open_deliveries (organization_id, endpoint_id, priority, id)
  where claim_token is null and not is_backing_off;
-- For retries that aren't due yet: in the order they become due, and for an endpoint's delivery log.
create index open_deliveries_backing_off_idx on business_api.open_deliveries (due_at) where is_backing_off;

create index open_deliveries_backing_off_log_idx
  on business_api.open_deliveries (organization_id, endpoint_id, id) where is_backing_off;

-- For deliveries being sent. The condition isn't on claim_token, because statements that write results compare that
-- column, and the planner might scan this whole index for each result.
create index open_deliveries_lease_until_idx on business_api.open_deliveries (lease_until) where lease_until is not null;

-- Finished deliveries, inserted once in their final state. Partitioned by day (34-days.sql), since IDs start with a
-- time.
create table business_api.finished_deliveries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  event_id text collate "C" not null,
  type text not null,
  endpoint_id text collate "C" not null,
  state text not null,
  reason text,
  created_at timestamptz not null,
  finished_at timestamptz not null,
  attempts integer not null default 0,
  is_backfill boolean not null default false,
  constraint finished_deliveries_pkey primary key (organization_id, id),
  constraint finished_deliveries_state_check check (state in ('delivered', 'failed', 'skipped', 'cancelled'))
) partition by range (id);

-- For the delivery log, newest first: by state and endpoint, and by type and endpoint. The conditions are true for all
-- rows but keep statements that don't mention a state from using these indexes. Otherwise a plan from when the table
-- was small might read thousands of index entries to find a single delivery.
create index finished_deliveries_state_idx
  on business_api.finished_deliveries (organization_id, state, endpoint_id, id)
  where state in ('delivered', 'failed', 'skipped', 'cancelled');

create index finished_deliveries_type_idx
  on business_api.finished_deliveries (organization_id, type, endpoint_id, id)
  where state in ('delivered', 'failed', 'skipped', 'cancelled');

-- For counting failed and skipped deliveries (43-queue-counts.sql), without any cost for successful ones.
create index finished_deliveries_recoverable_idx
  on business_api.finished_deliveries (organization_id, state, endpoint_id, id)
  where state in ('failed', 'skipped');
