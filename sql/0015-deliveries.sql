-- Deliveries and the log of their attempts. A delivery is claimed for as long as its lease lasts, and every later write is
-- fenced by the claim's token.
-- Locks: business_api.events against writes, for the moment that the foreign key takes; every other object is new.

create table business_api.deliveries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  event_id text collate "C" not null,
  -- No foreign key to the endpoint: it would make every publisher lock the endpoint's one row. Endpoints are removed by a
  -- mark, and their rows only when no delivery is left.
  endpoint_id text collate "C" not null,
  state text not null,
  due_at timestamptz not null,
  created_at timestamptz not null default now(),
  -- Attempts of all rounds, counted when claimed; and those before the present round.
  attempts integer not null default 0,
  attempts_before integer not null default 0,
  is_retry boolean not null generated always as (attempts > attempts_before) stored,
  -- A retry that is not due yet: claims do not walk over it until its time has come.
  is_backing_off boolean not null default false,
  claim_token text,
  claimed_at timestamptz,
  lease_until timestamptz,
  reason text,
  finished_at timestamptz,
  constraint deliveries_pkey primary key (organization_id, id),
  constraint deliveries_organization_id_event_id_fkey
    foreign key (organization_id, event_id) references business_api.events (organization_id, id),
  constraint deliveries_state_check
    check (state in ('pending', 'in_flight', 'delivered', 'dead_lettered', 'skipped', 'cancelled'))
-- Every delivery leaves two dead rows behind: claims step over them until they are vacuumed.
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Claims walk along this one: endpoint by endpoint, first attempts before retries, the longest due first.
create index deliveries_pending_idx
  on business_api.deliveries (organization_id, endpoint_id, is_retry, due_at)
  where state = 'pending' and not is_backing_off;
create index deliveries_backing_off_idx on business_api.deliveries (due_at) where state = 'pending' and is_backing_off;
create index deliveries_lease_until_idx on business_api.deliveries (lease_until) where state = 'in_flight';
-- The delivery log by state and endpoint, newest first: the deliveries that can be recovered, and the others. Those in flight
-- have the index above. A claim writes to neither; a delivery that succeeds at once is in the second one twice, which adds a
-- quarter to the log records of publishing, claiming and delivering (466 bytes a delivery), and nothing measurable to their
-- time. There is no index of all deliveries by endpoint: with one more index on organization_id or id, a plan that a session
-- made while the table was small may look for a delivery there, past thousands of others. Partial indexes are safe, because
-- the writes of claims and results name no state.
create index deliveries_recoverable_idx
  on business_api.deliveries (organization_id, state, endpoint_id, id)
  where state in ('dead_lettered', 'skipped');
create index deliveries_log_idx
  on business_api.deliveries (organization_id, state, endpoint_id, id)
  where state in ('pending', 'delivered', 'cancelled');
-- The deliveries of an event. Not unique: an event is inserted once, together with its deliveries, so no endpoint can get it twice.
create index deliveries_event_id_idx on business_api.deliveries (event_id);

-- No foreign key to deliveries: it would lock and so write the delivery's row once more for each attempt.
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
