-- Deliveries and the log of attempts. A delivery is a row of open_deliveries until the last attempt, then a row of
-- finished_deliveries: the statement that ends a delivery moves the row, and a redelivery moves the row back. So the claims walk
-- over a small table, and the log is written once. A claim lasts as long as the lease, and every later write is fenced by the
-- claim's token.
-- Locks: nothing in use; every object is new.

-- The deliveries that are pending or, with a claim_token, in flight.
create table business_api.open_deliveries (
  organization_id text collate "C" not null,
  -- Begins with the event's delivery_prefix.
  id text collate "C" not null,
  -- Without a foreign key to the event, because one statement writes an event and all deliveries of the event. A session keeps
  -- the plan of a foreign key's check: a plan from a time when the table of events was almost empty reads the whole table for
  -- each delivery, until the table is analyzed (measured: 3.9 ms for a create after 3,000 others, 0.4 ms without the key).
  event_id text collate "C" not null,
  -- The type of the event, for the log of a type.
  type text not null,
  -- Without a foreign key to the endpoint, because every publisher would lock the endpoint's row. Removing an endpoint only sets
  -- its state; the row is deleted after the last delivery.
  endpoint_id text collate "C" not null,
  due_at timestamptz not null,
  created_at timestamptz not null default now(),
  -- Attempts of all rounds, counted by the claim; and attempts before the present round.
  attempts integer not null default 0,
  attempts_before integer not null default 0,
  is_retry boolean not null generated always as (attempts > attempts_before) stored,
  -- True for a retry that is not due: the claims' index leaves the delivery out until promote_due_retries.
  is_backing_off boolean not null default false,
  -- True for a delivery of a backfill, which stands behind all other deliveries of the organization.
  is_backfill boolean not null default false,
  -- All three are null while the delivery is pending.
  claim_token text,
  claimed_at timestamptz,
  lease_until timestamptz,
  constraint open_deliveries_pkey primary key (organization_id, id)
-- Every delivery leaves two dead rows, and claims step over dead rows until the next vacuum. A claim finds space for the changed row
-- in the half empty page of the row: then the write-ahead log holds the difference only (150 bytes less). No claim is HOT
-- (heap-only), because the conditions of the indexes name the claim.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Claims walk along this index: endpoint by endpoint, first attempts before retries, the oldest first. In the order of the ids,
-- not of due_at, the index serves the delivery log too.
create index open_deliveries_due_idx
  on business_api.open_deliveries (organization_id, endpoint_id, is_retry, id)
  where claim_token is null and not is_backing_off and not is_backfill;
-- The same for backfills, which claims look at last. Every other delivery leaves this index alone.
create index open_deliveries_backfill_idx
  on business_api.open_deliveries (organization_id, endpoint_id, is_retry, id)
  where claim_token is null and not is_backing_off and is_backfill;
-- Retries that are not due: in the order in which they become due, and for the delivery log of an endpoint.
create index open_deliveries_backing_off_idx on business_api.open_deliveries (due_at) where is_backing_off;
create index open_deliveries_backing_off_log_idx
  on business_api.open_deliveries (organization_id, endpoint_id, id) where is_backing_off;
-- Deliveries in flight. The condition must not be on the claim_token, which the writes of results compare: the planner might then
-- read this index from end to end for each result.
create index open_deliveries_lease_until_idx on business_api.open_deliveries (lease_until) where lease_until is not null;

-- The deliveries that ended, each inserted once with the final state.
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
  constraint finished_deliveries_state_check check (state in ('delivered', 'dead_lettered', 'skipped', 'cancelled'))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- The two indexes of the delivery log, newest first: by state and endpoint, and by type and endpoint. The conditions hold for every
-- row, and keep the indexes from statements that name no state: a session may keep a plan from a time when the table was small,
-- and such a plan might search one of these indexes for a single delivery, past thousands of others.
create index finished_deliveries_state_idx
  on business_api.finished_deliveries (organization_id, state, endpoint_id, id)
  where state in ('delivered', 'dead_lettered', 'skipped', 'cancelled');
create index finished_deliveries_type_idx
  on business_api.finished_deliveries (organization_id, type, endpoint_id, id)
  where state in ('delivered', 'dead_lettered', 'skipped', 'cancelled');

-- The dead letters and skipped deliveries of all organizations, for the counts of operators (0023-queue-counts.sql). A delivery that
-- succeeds leaves this index alone.
create index finished_deliveries_recoverable_idx
  on business_api.finished_deliveries (organization_id, state, endpoint_id, id)
  where state in ('dead_lettered', 'skipped');

-- Without a foreign key to deliveries, because each attempt would lock the delivery's row, and so write the row once more.
create table business_api.delivery_attempts (
  organization_id text collate "C" not null,
  delivery_id text collate "C" not null,
  number integer not null,
  started_at timestamptz not null,
  duration_ms real not null,
  dns_ms real,
  connect_ms real,
  tls_ms real,
  first_byte_ms real,
  status integer,
  error text,
  body_excerpt text not null,
  constraint delivery_attempts_pkey primary key (organization_id, delivery_id, number)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- The log of open deliveries is read by functions, because the table may be empty one minute and have a million rows the next:
-- 0016-due-deliveries.sql says why a function limits the planner.

-- Lists the open deliveries of an organization that a filter selects, in no certain order: of each range of an index up to
-- row_limit, the newest. `type`, `since` and `until` may be null, and `endpoint_id` for all endpoints. The ids are at least first_id
-- and below end_id. The comparisons of rows leave the planner one index for each range.
create function business_api.list_open_deliveries(
  organization_id text,
  endpoint_id text,
  type text,
  has_pending boolean,
  has_in_flight boolean,
  since timestamptz,
  until timestamptz,
  first_id text,
  end_id text,
  row_limit integer
) returns setof business_api.open_deliveries
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
  if $4 and $2 is null then
    return query
      select d.* from business_api.open_deliveries d
       where d.organization_id = $1 and d.id >= $8 and d.id < $9 and ($5 or d.claim_token is null)
         and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
       order by d.id desc limit $10;
    return;
  end if;
  if $4 then
    return query
      select due.*
        from (values (false), (true)) as kind (is_retry)
        cross join lateral (
          select d.* from business_api.open_deliveries d
           where d.organization_id = $1 and d.endpoint_id = $2
             and d.claim_token is null and not d.is_backing_off and not d.is_backfill
             and (d.is_retry, d.id) >= (kind.is_retry, $8) and (d.is_retry, d.id) < (kind.is_retry, $9)
             and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
           order by d.is_retry desc, d.id desc limit $10
        ) as due;
    return query
      select due.*
        from (values (false), (true)) as kind (is_retry)
        cross join lateral (
          select d.* from business_api.open_deliveries d
           where d.organization_id = $1 and d.endpoint_id = $2
             and d.claim_token is null and not d.is_backing_off and d.is_backfill
             and (d.is_retry, d.id) >= (kind.is_retry, $8) and (d.is_retry, d.id) < (kind.is_retry, $9)
             and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
           order by d.is_retry desc, d.id desc limit $10
        ) as due;
    return query
      select d.* from business_api.open_deliveries d
       where d.organization_id = $1 and d.is_backing_off
         and (d.endpoint_id, d.id) >= ($2, $8) and (d.endpoint_id, d.id) < ($2, $9)
         and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
       order by d.endpoint_id desc, d.id desc limit $10;
  end if;
  if $5 then
    -- Never more than the slots of all processes together.
    return query
      select d.* from business_api.open_deliveries d
       where d.lease_until is not null and d.organization_id = $1 and ($2 is null or d.endpoint_id = $2)
         and d.id >= $8 and d.id < $9
         and ($3 is null or d.type = $3) and ($6 is null or d.created_at >= $6) and ($7 is null or d.created_at < $7)
       order by d.lease_until;
  end if;
end
$$;

-- Lists the deliveries of an event, open and finished: a range of both primary keys.
create function business_api.deliveries_of_event(organization_id text, event_id text, delivery_prefix text)
returns table (id text, type text, endpoint_id text, state text, created_at timestamptz)
language plpgsql stable rows 4
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select d.id, d.type, d.endpoint_id, case when d.claim_token is null then 'pending' else 'in_flight' end, d.created_at
      from business_api.open_deliveries d
     where d.organization_id = $1 and d.id >= $3 and d.id < $3 || '~' and d.event_id = $2
    union all
    select d.id, d.type, d.endpoint_id, d.state, d.created_at
      from business_api.finished_deliveries d
     where d.organization_id = $1 and d.id >= $3 and d.id < $3 || '~' and d.event_id = $2;
end
$$;
