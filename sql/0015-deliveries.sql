-- Deliveries and the log of attempts. A claim lasts as long as the lease, and every later write is fenced by the claim's token.
-- Locks: nothing in use; every object is new.

create table business_api.deliveries (
  organization_id text collate "C" not null,
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
  state text not null,
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
  claim_token text,
  claimed_at timestamptz,
  lease_until timestamptz,
  reason text,
  finished_at timestamptz,
  constraint deliveries_pkey primary key (organization_id, id),
  constraint deliveries_state_check
    check (state in ('pending', 'in_flight', 'delivered', 'dead_lettered', 'skipped', 'cancelled'))
-- Every delivery leaves two dead rows, and claims step over dead rows until the next vacuum.
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Every claim and every result changes the state, which indexes name in their conditions, so no update of a delivery is HOT
-- (heap-only). Claims that change no indexed column were measured, with the token in the row or in an unlogged table: a burst
-- fills its pages, so 15 to 47 % of the updates were HOT at a fillfactor of 100 to 75, and a claim wrote 504 to 768 bytes to
-- the write-ahead log instead of 611.

-- Claims walk along this index: endpoint by endpoint, first attempts before retries, the longest due first.
create index deliveries_pending_idx
  on business_api.deliveries (organization_id, endpoint_id, is_retry, due_at)
  where state = 'pending' and not is_backing_off and not is_backfill;
-- The same for backfills, which claims look at last. Every other delivery leaves this index alone.
create index deliveries_backfill_idx
  on business_api.deliveries (organization_id, endpoint_id, is_retry, due_at)
  where state = 'pending' and not is_backing_off and is_backfill;
create index deliveries_backing_off_idx on business_api.deliveries (due_at) where state = 'pending' and is_backing_off;
create index deliveries_lease_until_idx on business_api.deliveries (lease_until) where state = 'in_flight';
-- The two indexes of the delivery log by state and endpoint, newest first: the recoverable deliveries, and the other
-- deliveries. Deliveries in flight have the index above. A claim writes to neither index. A delivery that succeeds at once enters
-- the second index twice, which adds a quarter to the write-ahead log of publishing, claiming and delivering (466 bytes a
-- delivery) and no measurable time. There is no index of all deliveries by endpoint: a session may keep a plan from a time when
-- the table was small, and with one more index that begins with organization_id or id such a plan might search that index for a
-- delivery, past thousands of others. Partial indexes are safe, because the writes of claims and results name no state.
create index deliveries_recoverable_idx
  on business_api.deliveries (organization_id, state, endpoint_id, id)
  where state in ('dead_lettered', 'skipped');
create index deliveries_log_idx
  on business_api.deliveries (organization_id, state, endpoint_id, id)
  where state in ('pending', 'delivered', 'cancelled');
-- The delivery log of a type, like the log by state: without the index a view of a rare type read the whole log. A delivery
-- enters the index once, with its final state. The view reads other deliveries of the type along the index above.
create index deliveries_type_idx
  on business_api.deliveries (organization_id, type, endpoint_id, id)
  where state in ('delivered', 'dead_lettered', 'skipped', 'cancelled');
-- The deliveries of an event, for the purge and the log. The index need not be unique with the endpoint, because
-- an event is inserted once, together with all its deliveries. A hash index writes as much to the write-ahead log.
create index deliveries_event_id_idx on business_api.deliveries (event_id);

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
