-- Deliveries and the log of attempts. A delivery is a row of open_deliveries until the last attempt, then a row of
-- finished_deliveries: the statement that ends a delivery moves the row, and a redelivery moves the row back. So the claims scan
-- over a small table, and the log is written once. A claim lasts as long as the lease, and every later write is fenced by the
-- claim's token.

-- The deliveries that are pending or, with a claim_token, being sent.
create table business_api.open_deliveries (
  organization_id text collate "C" not null,
  -- Begins with the event's delivery_prefix.
  id text collate "C" not null,
  -- Without a foreign key to the event, because one statement writes an event and all deliveries of the event. A session keeps
  -- the plan of a foreign key's check: a plan from a time when the table of events was almost empty reads the whole table for
  -- each delivery, until the table is analyzed (measured: 3.9 ms for a create after 3,000 others, 0.4 ms without the key).
  event_id text collate "C" not null,
  -- The event's type, for the log by type.
  type text not null,
  -- Without a foreign key to the endpoint, because every publisher would lock the endpoint's row. Removing an endpoint only sets
  -- its state; the row is deleted after the last delivery.
  endpoint_id text collate "C" not null,
  due_at timestamptz not null,
  created_at timestamptz not null default now(),
  -- Attempts of all rounds, counted by the claim; and attempts before the present round.
  attempts integer not null default 0,
  attempts_before integer not null default 0,
  -- True for a retry that is not due: the claims' index leaves the delivery out until promote_due_retries.
  is_backing_off boolean not null default false,
  -- True for a backfill's delivery: claims take these last.
  is_backfill boolean not null default false,
  -- The order in which an endpoint's deliveries are claimed: 0 first attempts, 1 retries, 2 backfills.
  priority smallint not null generated always as (
    case when is_backfill then 2 when attempts > attempts_before then 1 else 0 end
  ) stored,
  -- All three are null while the delivery is pending.
  claim_token text,
  claimed_at timestamptz,
  lease_until timestamptz,
  constraint open_deliveries_pkey primary key (organization_id, id)
-- Every delivery leaves two dead rows, and claims step over dead rows until the next vacuum. A claim finds space for the changed row
-- in the half empty page of the row: then the write-ahead log holds the difference only (150 bytes less). No claim is HOT
-- (heap-only), because the conditions of the indexes name the claim.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Claims scan this index: endpoint by endpoint, by priority, the oldest first. Ordered by id, not by due_at, so the index serves the
-- delivery log too.
create index open_deliveries_due_idx
  on business_api.open_deliveries (organization_id, endpoint_id, priority, id)
  where claim_token is null and not is_backing_off;
-- Retries that are not due: in the order in which they become due, and for the delivery log of an endpoint.
create index open_deliveries_backing_off_idx on business_api.open_deliveries (due_at) where is_backing_off;

create index open_deliveries_backing_off_log_idx
  on business_api.open_deliveries (organization_id, endpoint_id, id) where is_backing_off;

-- Deliveries that are being sent. The condition must not be on the claim_token, which the writes of results compare: the planner might then
-- read this index from end to end for each result.
create index open_deliveries_lease_until_idx on business_api.open_deliveries (lease_until) where lease_until is not null;

-- The deliveries that ended, each inserted once with the final state. Partitioned by day (34-days.sql): the ids begin with the time
-- of publishing.
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

-- The two indexes of the delivery log, newest first: by state and endpoint, and by type and endpoint. The conditions hold for every
-- row, and keep the indexes from statements that name no state: a session may keep a plan from a time when the table was small,
-- and such a plan might search one of these indexes for a single delivery, past thousands of others.
create index finished_deliveries_state_idx
  on business_api.finished_deliveries (organization_id, state, endpoint_id, id)
  where state in ('delivered', 'failed', 'skipped', 'cancelled');

create index finished_deliveries_type_idx
  on business_api.finished_deliveries (organization_id, type, endpoint_id, id)
  where state in ('delivered', 'failed', 'skipped', 'cancelled');

-- All organizations' failed and skipped deliveries, for operators' counts (43-queue-counts.sql). A delivery that succeeds leaves this
-- index alone.
create index finished_deliveries_recoverable_idx
  on business_api.finished_deliveries (organization_id, state, endpoint_id, id)
  where state in ('failed', 'skipped');
