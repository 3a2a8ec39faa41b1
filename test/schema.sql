-- The schema as the migrations leave it, for review: written by test/postgres/schema.test.ts with UPDATE_SCHEMA=1, and compared by
-- it. sql/ has the definitions with their comments.

create table business_api.api_keys (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  digest text collate "C" not null,
  name text not null,
  scopes text[] not null,
  prefix text not null,
  last_four text not null,
  per_second double precision,
  burst integer,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  last_used_at timestamp with time zone,
  expiry_noticed timestamp with time zone,
  expiry_noticed_by text collate "C",
  successor_id text collate "C",
  constraint api_keys_pkey PRIMARY KEY (organization_id, id),
  constraint api_keys_digest_key UNIQUE (digest),
  constraint api_keys_burst_check CHECK ((((per_second IS NULL) = (burst IS NULL)) AND (per_second > (0)::double precision) AND (burst > 0)))
);

create table business_api.api_requests (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  day smallint not null,
  at timestamp with time zone not null,
  key_id text collate "C" not null,
  method text not null,
  route text not null,
  path text not null,
  status smallint not null,
  duration_ms real not null,
  error text,
  is_replay boolean not null,
  constraint api_requests_pkey PRIMARY KEY (organization_id, id, day)
) partition by LIST (day);

create table business_api.audit_entries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  changed_at timestamp with time zone not null,
  actor text,
  action text not null,
  subject_id text collate "C" not null,
  details jsonb not null,
  constraint audit_entries_pkey PRIMARY KEY (organization_id, id)
);

create table business_api.businesses (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  category text,
  city text,
  email text,
  phone text,
  client_id text collate "C",
  client_status text,
  total_revenue numeric(15,3),
  monthly_revenue numeric(15,3),
  converted_at timestamp with time zone,
  latest_changes text[] collate "C" default '{}'::text[] not null,
  changed_xid xid8 default pg_current_xact_id() not null,
  updated_at timestamp with time zone default now() not null,
  representation text generated always as (
CASE
    WHEN (client_id IS NOT NULL) THEN business_api.client_representation(client_id, client_status, total_revenue, monthly_revenue, converted_at, business_api.business_representation(id, name, category, city, email, phone))
    ELSE NULL::text
END) stored,
  constraint businesses_pkey PRIMARY KEY (organization_id, id),
  constraint businesses_client_id_check CHECK ((num_nulls(client_id, client_status, total_revenue, monthly_revenue, converted_at) = ANY (ARRAY[0, 5]))),
  constraint businesses_monthly_revenue_check CHECK ((monthly_revenue <> 'NaN'::numeric)),
  constraint businesses_total_revenue_check CHECK ((total_revenue <> 'NaN'::numeric))
);

create table business_api.delivery_attempts (
  organization_id text collate "C" not null,
  delivery_id text collate "C" not null,
  number integer not null,
  started_at timestamp with time zone not null,
  duration_ms real not null,
  dns_ms real,
  connect_ms real,
  tls_ms real,
  first_byte_ms real,
  status integer,
  error text,
  body_excerpt text not null,
  location text,
  headers jsonb,
  constraint delivery_attempts_pkey PRIMARY KEY (organization_id, delivery_id, number)
) partition by RANGE (delivery_id);

create type business_api.delivery_filter as (
  "endpointId" text,
  "eventId" text,
  "subjectId" text,
  type text,
  states text[],
  since timestamp with time zone,
  until timestamp with time zone
);

create type business_api.ended_attempt as (
  organization_id text,
  endpoint_id text,
  outcome text,
  created_at timestamp with time zone,
  duration_ms real,
  status integer,
  error text
);

create table business_api.endpoint_activity (
  organization_id text collate "C" not null,
  hour timestamp with time zone not null,
  endpoint_id text collate "C" not null,
  slot smallint not null,
  counts integer[] not null,
  constraint endpoint_activity_pkey PRIMARY KEY (organization_id, hour, endpoint_id, slot)
) with (fillfactor=50, autovacuum_vacuum_scale_factor=0.02, autovacuum_analyze_scale_factor=0.02);

create table business_api.endpoint_rates (
  organization_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  rate double precision,
  ceiling double precision,
  rejected_at timestamp with time zone default '-infinity'::timestamp with time zone not null,
  accepted integer default 0 not null,
  wait_ms double precision default 0 not null,
  waited_ms double precision default 0 not null,
  next_at timestamp with time zone default '-infinity'::timestamp with time zone not null,
  probe_id text collate "C",
  probe_token text collate "C",
  constraint endpoint_rates_pkey PRIMARY KEY (organization_id, endpoint_id)
) with (fillfactor=50);

create table business_api.event_days (
  organization_id text collate "C" default ''::text not null,
  begins text collate "C" not null,
  ends text collate "C" not null,
  begins_at timestamp with time zone not null,
  ends_at timestamp with time zone not null,
  name text not null,
  checked_at timestamp with time zone,
  retained_for jsonb,
  dropped_at timestamp with time zone,
  constraint event_days_pkey PRIMARY KEY (organization_id, begins),
  constraint event_days_organization_id_check CHECK ((organization_id = ''::text))
);

create table business_api.event_ids (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  delivery_prefix text collate "C" not null,
  constraint event_ids_pkey PRIMARY KEY (organization_id, id)
) with (autovacuum_vacuum_scale_factor=0.02, autovacuum_analyze_scale_factor=0.02);

create table business_api.event_limits (
  organization_id text collate "C" default ''::text not null,
  max_body_bytes integer not null,
  constraint event_limits_pkey PRIMARY KEY (organization_id),
  constraint event_limits_max_body_bytes_check CHECK (((max_body_bytes >= 65536) AND (max_body_bytes <= 4194304))),
  constraint event_limits_organization_id_check CHECK ((organization_id = ''::text))
);

create table business_api.event_types (
  organization_id text collate "C" default ''::text not null,
  type text collate "C" not null,
  subject text,
  constraint event_types_pkey PRIMARY KEY (organization_id, type),
  constraint event_types_organization_id_check CHECK ((organization_id = ''::text)),
  constraint event_types_type_check CHECK (((type ~ '^[a-z][a-z0-9_]*[.][a-z][a-z0-9_]*$'::text) AND (char_length(type) <= 64)))
);

create table business_api.events (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  type text not null,
  body text not null,
  only_endpoint_id text collate "C",
  delivery_prefix text collate "C" not null,
  traceparent text,
  subject_id text collate "C",
  constraint events_pkey PRIMARY KEY (organization_id, id, delivery_prefix)
) partition by RANGE (delivery_prefix);

create table business_api.finished_deliveries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  event_id text collate "C" not null,
  type text not null,
  endpoint_id text collate "C" not null,
  state text not null,
  reason text,
  created_at timestamp with time zone not null,
  finished_at timestamp with time zone not null,
  attempts integer default 0 not null,
  is_backfill boolean default false not null,
  constraint finished_deliveries_pkey PRIMARY KEY (organization_id, id),
  constraint finished_deliveries_state_check CHECK ((state = ANY (ARRAY['delivered'::text, 'failed'::text, 'skipped'::text, 'cancelled'::text])))
) partition by RANGE (id);

create table business_api.idempotency_keys (
  organization_id text collate "C" not null,
  operation text collate "C" not null,
  key text collate "C" not null,
  fingerprint text collate "C" not null,
  record_id text collate "C" not null,
  reply text not null,
  expires_at timestamp with time zone not null,
  constraint idempotency_keys_pkey PRIMARY KEY (organization_id, operation, key)
);

create table business_api.installation (
  organization_id text collate "C" default ''::text not null,
  name text,
  identity text not null,
  constraint installation_pkey PRIMARY KEY (organization_id),
  constraint installation_organization_id_check CHECK ((organization_id = ''::text))
);

create table business_api.invoices (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  number text not null,
  status text not null,
  currency text not null,
  minor_units smallint not null,
  issue_date timestamp with time zone not null,
  due_date timestamp with time zone not null,
  total numeric not null,
  amount_paid numeric not null,
  latest_changes text[] collate "C" default '{}'::text[] not null,
  changed_xid xid8 default pg_current_xact_id() not null,
  updated_at timestamp with time zone default now() not null,
  representation text generated always as (business_api.invoice_representation(id, number, status, currency, (minor_units)::integer, issue_date, due_date, total, amount_paid)) stored not null,
  constraint invoices_pkey PRIMARY KEY (organization_id, id),
  constraint invoices_organization_id_number_key UNIQUE (organization_id, number),
  constraint invoices_amount_paid_check CHECK (((amount_paid >= (0)::numeric) AND (amount_paid <= total) AND (amount_paid = round(amount_paid, (minor_units)::integer)))),
  constraint invoices_minor_units_check CHECK (((minor_units >= 0) AND (minor_units <= 4))),
  constraint invoices_total_check CHECK (((total >= (0)::numeric) AND (total < '1000000000000000'::numeric) AND (total = round(total, (minor_units)::integer))))
);

create table business_api.leads (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  business_id text collate "C" not null,
  stage text not null,
  lead_score numeric(15,3),
  score_band text,
  expected_value numeric(15,3),
  created_at timestamp with time zone not null,
  latest_changes text[] collate "C" default '{}'::text[] not null,
  changed_xid xid8 default pg_current_xact_id() not null,
  updated_at timestamp with time zone default now() not null,
  representation text generated always as (business_api.lead_representation(id, stage, lead_score, score_band, expected_value, created_at)) stored not null,
  constraint leads_pkey PRIMARY KEY (organization_id, id),
  constraint leads_organization_id_business_id_fkey FOREIGN KEY (organization_id, business_id) REFERENCES business_api.businesses(organization_id, id),
  constraint leads_expected_value_check CHECK ((expected_value <> 'NaN'::numeric)),
  constraint leads_lead_score_check CHECK (((lead_score >= (0)::numeric) AND (lead_score <= (100)::numeric)))
);

create type business_api.logged_delivery as (
  organization_id text collate "C",
  id text collate "C",
  event_id text collate "C",
  type text,
  endpoint_id text collate "C",
  state text,
  reason text,
  attempts integer,
  due_at timestamp with time zone,
  created_at timestamp with time zone,
  finished_at timestamp with time zone
);

create table business_api.migrations (
  id integer not null,
  name text not null,
  breaking boolean not null,
  applied_at timestamp with time zone default now() not null,
  constraint migrations_pkey PRIMARY KEY (id)
);

create table business_api.number_series (
  organization_id text collate "C" not null,
  series text collate "C" not null,
  last bigint not null,
  constraint number_series_pkey PRIMARY KEY (organization_id, series)
);

create table business_api.open_deliveries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  event_id text collate "C" not null,
  type text not null,
  endpoint_id text collate "C" not null,
  due_at timestamp with time zone not null,
  created_at timestamp with time zone default now() not null,
  attempts integer default 0 not null,
  attempts_before integer default 0 not null,
  is_backing_off boolean default false not null,
  is_backfill boolean default false not null,
  priority smallint generated always as (
CASE
    WHEN is_backfill THEN 2
    WHEN (attempts > attempts_before) THEN 1
    ELSE 0
END) stored not null,
  claim_token text,
  claimed_at timestamp with time zone,
  lease_until timestamp with time zone,
  constraint open_deliveries_pkey PRIMARY KEY (organization_id, id)
) with (fillfactor=50, autovacuum_vacuum_scale_factor=0.02, autovacuum_analyze_scale_factor=0.02);

create table business_api.organization_limits (
  organization_id text collate "C" not null,
  per_second double precision not null,
  burst integer not null,
  constraint organization_limits_pkey PRIMARY KEY (organization_id),
  constraint organization_limits_burst_check CHECK (((per_second > (0)::double precision) AND (burst > 0)))
);

create table business_api.payments (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  invoice_id text collate "C" not null,
  amount numeric not null,
  received_at timestamp with time zone not null,
  reversed_by text collate "C",
  constraint payments_pkey PRIMARY KEY (organization_id, id),
  constraint payments_organization_id_invoice_id_fkey FOREIGN KEY (organization_id, invoice_id) REFERENCES business_api.invoices(organization_id, id),
  constraint payments_amount_check CHECK ((amount <> (0)::numeric))
);

create table business_api.projects (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  status text not null,
  billing_type text not null,
  value numeric(15,3) not null,
  latest_changes text[] collate "C" default '{}'::text[] not null,
  changed_xid xid8 default pg_current_xact_id() not null,
  updated_at timestamp with time zone default now() not null,
  representation text generated always as (business_api.project_representation(id, name, status, billing_type, value)) stored not null,
  constraint projects_pkey PRIMARY KEY (organization_id, id),
  constraint projects_value_check CHECK ((value <> 'NaN'::numeric))
);

create table business_api.proposals (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  number text not null,
  title text not null,
  status text not null,
  version integer not null,
  total numeric(15,3) not null,
  monthly_total numeric(15,3) not null,
  currency text not null,
  latest_changes text[] collate "C" default '{}'::text[] not null,
  signed_by text,
  minor_units smallint default 3 not null,
  signed_at timestamp with time zone,
  changed_xid xid8 default pg_current_xact_id() not null,
  updated_at timestamp with time zone default now() not null,
  representation text generated always as (business_api.proposal_representation(id, number, title, status, version, total, monthly_total, currency)) stored not null,
  constraint proposals_pkey PRIMARY KEY (organization_id, id),
  constraint proposals_organization_id_number_key UNIQUE (organization_id, number),
  constraint proposals_minor_units_check CHECK (((minor_units >= 0) AND (minor_units <= 4))),
  constraint proposals_monthly_total_check CHECK ((monthly_total <> 'NaN'::numeric)),
  constraint proposals_signed_at_check CHECK (((signed_by IS NULL) = (signed_at IS NULL))),
  constraint proposals_total_check CHECK ((total <> 'NaN'::numeric)),
  constraint proposals_version_check CHECK ((version >= 1))
);

create table business_api.purge_progress (
  organization_id text collate "C" default ''::text not null,
  retention_ms double precision default '2592000000'::bigint not null,
  cursor jsonb default '{}'::jsonb not null,
  second_cursor jsonb,
  second_pass_at timestamp with time zone default '-infinity'::timestamp with time zone not null,
  paused_until timestamp with time zone default '-infinity'::timestamp with time zone not null,
  purged_at timestamp with time zone,
  constraint purge_progress_pkey PRIMARY KEY (organization_id),
  constraint purge_progress_organization_id_check CHECK ((organization_id = ''::text))
);

create unlogged table business_api.rate_buckets (
  organization_id text collate "C" not null,
  bucket text collate "C" not null,
  full_at double precision not null,
  constraint rate_buckets_pkey PRIMARY KEY (organization_id, bucket)
) with (fillfactor=50);

create table business_api.settings_turns (
  organization_id text collate "C" not null,
  turn bigint not null,
  constraint settings_turns_pkey PRIMARY KEY (organization_id)
);

create table business_api.shard_places (
  organization_id text collate "C" default ''::text not null,
  name text collate "C" not null,
  version bigint not null,
  slots text[],
  is_here boolean default true not null,
  slot integer generated always as (((((hashtextextended(organization_id, '8816678312871386365'::bigint) & (1023)::bigint) + 227))::integer & 1023)) stored not null,
  constraint shard_places_pkey PRIMARY KEY (organization_id, version),
  constraint shard_places_slots_check CHECK (
CASE
    WHEN (organization_id = ''::text) THEN ((cardinality(slots) = 1024) AND (array_position(slots, NULL::text) IS NULL))
    ELSE (slots IS NULL)
END)
);

create table business_api.webhook_endpoints (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  url text not null,
  types text[],
  state text not null,
  created_at timestamp with time zone not null,
  version integer default 0 not null,
  description text default ''::text not null,
  header_names text[] default '{}'::text[] not null,
  sealed_headers text,
  standard_webhooks boolean default false not null,
  max_per_second double precision,
  sealed_secret text,
  previous_sealed_secret text,
  previous_secret_expires_at timestamp with time zone,
  disabled_reason text,
  failures integer default 0 not null,
  failing_since timestamp with time zone,
  noticed_attempt text collate "C",
  secret_expiry_noticed timestamp with time zone,
  secret_expiry_noticed_by text collate "C",
  constraint webhook_endpoints_pkey PRIMARY KEY (organization_id, id),
  constraint webhook_endpoints_state_check CHECK ((state = ANY (ARRAY['enabled'::text, 'paused'::text, 'disabled'::text, 'removed'::text])))
) with (fillfactor=50);

CREATE INDEX api_keys_expires_at_idx ON business_api.api_keys USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX api_requests_at_idx ON ONLY business_api.api_requests USING btree (organization_id, at, id);

CREATE INDEX audit_entries_action_idx ON business_api.audit_entries USING btree (organization_id, action, id);

CREATE INDEX audit_entries_actor_idx ON business_api.audit_entries USING btree (organization_id, actor, id);

CREATE INDEX audit_entries_subject_idx ON business_api.audit_entries USING btree (organization_id, subject_id, id);

CREATE INDEX audit_entries_tests_idx ON business_api.audit_entries USING btree (organization_id, changed_at) WHERE (action = 'endpoint.test_sent'::text);

CREATE INDEX businesses_organization_id_changed_xid_client_id_idx ON business_api.businesses USING btree (organization_id, changed_xid, client_id) WHERE (client_id IS NOT NULL);

CREATE UNIQUE INDEX businesses_organization_id_client_id_idx ON business_api.businesses USING btree (organization_id, client_id) WHERE (client_id IS NOT NULL);

CREATE INDEX businesses_organization_id_client_status_client_id_idx ON business_api.businesses USING btree (organization_id, client_status, client_id) WHERE (client_id IS NOT NULL);

CREATE INDEX businesses_organization_id_updated_at_client_id_idx ON business_api.businesses USING btree (organization_id, updated_at, client_id) WHERE (client_id IS NOT NULL);

CREATE INDEX endpoint_activity_hour_idx ON business_api.endpoint_activity USING btree (hour);

CREATE INDEX event_ids_delivery_prefix_idx ON business_api.event_ids USING btree (delivery_prefix);

CREATE INDEX events_delivery_prefix_idx ON ONLY business_api.events USING btree (delivery_prefix);

CREATE INDEX events_log_idx ON ONLY business_api.events USING btree (organization_id, delivery_prefix);

CREATE INDEX events_subject_idx ON ONLY business_api.events USING btree (hashtextextended(((organization_id || ' '::text) || subject_id), (0)::bigint)) WHERE (subject_id IS NOT NULL);

CREATE INDEX finished_deliveries_recoverable_idx ON ONLY business_api.finished_deliveries USING btree (organization_id, state, endpoint_id, id) WHERE (state = ANY (ARRAY['failed'::text, 'skipped'::text]));

CREATE INDEX finished_deliveries_state_idx ON ONLY business_api.finished_deliveries USING btree (organization_id, state, endpoint_id, id) WHERE (state = ANY (ARRAY['delivered'::text, 'failed'::text, 'skipped'::text, 'cancelled'::text]));

CREATE INDEX finished_deliveries_type_idx ON ONLY business_api.finished_deliveries USING btree (organization_id, type, endpoint_id, id) WHERE (state = ANY (ARRAY['delivered'::text, 'failed'::text, 'skipped'::text, 'cancelled'::text]));

CREATE INDEX idempotency_keys_expires_at_idx ON business_api.idempotency_keys USING btree (expires_at);

CREATE INDEX invoices_due_date_idx ON business_api.invoices USING btree (due_date) WHERE (status = ANY (ARRAY['issued'::text, 'partially_paid'::text]));

CREATE INDEX invoices_organization_id_changed_xid_id_idx ON business_api.invoices USING btree (organization_id, changed_xid, id);

CREATE INDEX invoices_organization_id_due_date_idx ON business_api.invoices USING btree (organization_id, due_date) WHERE (status = ANY (ARRAY['issued'::text, 'partially_paid'::text]));

CREATE INDEX invoices_organization_id_status_due_date_id_idx ON business_api.invoices USING btree (organization_id, status, due_date, id) WHERE (status = ANY (ARRAY['issued'::text, 'partially_paid'::text, 'overdue'::text]));

CREATE INDEX invoices_organization_id_status_id_idx ON business_api.invoices USING btree (organization_id, status, id);

CREATE INDEX invoices_organization_id_updated_at_id_idx ON business_api.invoices USING btree (organization_id, updated_at, id);

CREATE INDEX leads_organization_id_business_id_id_idx ON business_api.leads USING btree (organization_id, business_id, id);

CREATE INDEX leads_organization_id_changed_xid_id_idx ON business_api.leads USING btree (organization_id, changed_xid, id);

CREATE INDEX leads_organization_id_stage_id_idx ON business_api.leads USING btree (organization_id, stage, id);

CREATE INDEX leads_organization_id_updated_at_id_idx ON business_api.leads USING btree (organization_id, updated_at, id);

CREATE INDEX open_deliveries_backing_off_idx ON business_api.open_deliveries USING btree (due_at) WHERE is_backing_off;

CREATE INDEX open_deliveries_backing_off_log_idx ON business_api.open_deliveries USING btree (organization_id, endpoint_id, id) WHERE is_backing_off;

CREATE INDEX open_deliveries_due_idx ON business_api.open_deliveries USING btree (organization_id, endpoint_id, priority, id) WHERE ((claim_token IS NULL) AND (NOT is_backing_off));

CREATE INDEX open_deliveries_lease_until_idx ON business_api.open_deliveries USING btree (lease_until) WHERE (lease_until IS NOT NULL);

CREATE INDEX payments_organization_id_invoice_id_id_idx ON business_api.payments USING btree (organization_id, invoice_id, id);

CREATE INDEX projects_organization_id_changed_xid_id_idx ON business_api.projects USING btree (organization_id, changed_xid, id);

CREATE INDEX projects_organization_id_status_id_idx ON business_api.projects USING btree (organization_id, status, id);

CREATE INDEX projects_organization_id_updated_at_id_idx ON business_api.projects USING btree (organization_id, updated_at, id);

CREATE INDEX proposals_organization_id_changed_xid_id_idx ON business_api.proposals USING btree (organization_id, changed_xid, id);

CREATE INDEX proposals_organization_id_status_id_idx ON business_api.proposals USING btree (organization_id, status, id);

CREATE INDEX proposals_organization_id_updated_at_id_idx ON business_api.proposals USING btree (organization_id, updated_at, id);

CREATE INDEX shard_places_slot_idx ON business_api.shard_places USING btree (slot) WHERE (organization_id <> ''::text);

CREATE INDEX webhook_endpoints_previous_secret_expires_at_idx ON business_api.webhook_endpoints USING btree (previous_secret_expires_at) WHERE (previous_secret_expires_at IS NOT NULL);

CREATE INDEX webhook_endpoints_removed_idx ON business_api.webhook_endpoints USING btree (organization_id, id) WHERE (state = 'removed'::text);

-- 73dc5db7a9e8 business_api.backfill_part(text,text,text,text,integer,jsonb,jsonb)
-- 6e794915d747 business_api.business_representation(text,text,text,text,text,text)
-- 89ea2ea59c4a business_api.cancel_pending_part(bigint,jsonb)
-- a2eb7404f1c8 business_api.check_installation(text,boolean)
-- 8f2841195e33 business_api.claim_deliveries(text,boolean,integer,integer,integer,text,text,double precision,integer,integer,integer,jsonb,jsonb)
-- 664dd1440476 business_api.client_representation(text,text,numeric,numeric,timestamp with time zone,text)
-- 1a306d876444 business_api.continue_purge(double precision,integer,double precision)
-- 8efec47a69d8 business_api.count_activity(business_api.ended_attempt[])
-- 85da97da4c79 business_api.count_api_keys_in_force(text,timestamp with time zone)
-- 98beb6c2894b business_api.count_in_entry(text,jsonb,text,bigint)
-- 63f696baab9b business_api.count_queue(text,text,integer)
-- e9e495fafa48 business_api.database_identity()
-- a73e961128ca business_api.day_bound(timestamp with time zone)
-- c2a6de390bfc business_api.day_grace_ms(double precision)
-- 63fa9a8ad302 business_api.day_width(double precision)
-- f0a2113c8b87 business_api.days_end(timestamp with time zone)
-- 104fe90dec07 business_api.delete_left_part(text,integer,jsonb,text[])
-- 171ae0702a83 business_api.delete_organization_part(text,integer,jsonb,text[])
-- 398b58310f6c business_api.deliveries_of_event(text,text,text)
-- 63e81159a903 business_api.deliveries_of_events(text,text[],text[])
-- 834244b4871a business_api.delivery_details(text,text[],text[])
-- 2b3c197e2a21 business_api.delivery_digits(timestamp with time zone)
-- 51af6809d006 business_api.end_attempts(jsonb,tid[],timestamp with time zone)
-- 8f67b4d163da business_api.endpoint_target(business_api.webhook_endpoints,timestamp with time zone)
-- 38afbb17d6c3 business_api.ensure_day(timestamp with time zone)
-- 17571f6c2f64 business_api.erase_ended_secrets(integer)
-- 27ded6b865cc business_api.event_subjects()
-- bc2d9a910358 business_api.events_of_record(text,text)
-- b85c26ad9d63 business_api.events_of_subject(text,text)
-- baa10c44a327 business_api.find_events(text,text[])
-- f4488faa5749 business_api.find_open_delivery(text,text)
-- ca51b4d8830a business_api.fit_bodies(bigint[],integer,integer)
-- faeafd0fdad5 business_api.forbid_plans(text,text[])
-- 90365fb59007 business_api.forget_business_in(text,text,jsonb)
-- 15a9ff8adf79 business_api.forget_business_part(text,text,jsonb,integer,jsonb,text[])
-- ed3b7f254da7 business_api.format_number(text,bigint)
-- 90df6f51d7b1 business_api.hold_deliveries(tid[],text,timestamp with time zone,timestamp with time zone)
-- 8c08a4f68740 business_api.id_time(text)
-- b33b5823d1f5 business_api.import_records(text,jsonb,jsonb)
-- 29539658d5bc business_api.insert_api_key(text,jsonb,integer)
-- c22074a063e5 business_api.insert_endpoint(text,jsonb,integer)
-- 730363f5ce01 business_api.insert_events(text,jsonb)
-- 007953738d3d business_api.invoice_representation(text,text,text,text,integer,timestamp with time zone,timestamp with time zone,numeric,numeric)
-- 16a1f2dab427 business_api.is_change_made(text,text,text)
-- 0d47ec5bf84f business_api.is_recorded(text,text)
-- 572c911ea916 business_api.is_selected(business_api.delivery_filter,business_api.logged_delivery)
-- 74ed797655dd business_api.judge(text[],integer[],double precision[],double precision[],double precision[],double precision[],text[],boolean)
-- 0184a96991f4 business_api.judge_endpoint(text,jsonb,timestamp with time zone,integer,double precision)
-- 1d3105ef4327 business_api.judge_rate(jsonb,timestamp with time zone)
-- 4cc53821e476 business_api.late_day_ms(double precision)
-- 22f3017f32f2 business_api.lead_representation(text,text,numeric,text,numeric,timestamp with time zone)
-- 79508d858b8e business_api.list_api_requests(text,jsonb,integer,text)
-- 1351e3bb2b01 business_api.list_deliveries_of_subject(text,jsonb,text,text,integer)
-- cc5271efe6c6 business_api.list_events(text,text,text,text,text,integer,integer,text)
-- ae7e135e0865 business_api.list_events_since(text,text,integer)
-- 8df2edac0d14 business_api.list_finished_deliveries(text,jsonb,text,text,integer,boolean)
-- 408f9bb4b230 business_api.list_open_deliveries(text,jsonb,text,text,integer)
-- 43bf1e1380cf business_api.literals_of(jsonb)
-- fa390fbb4799 business_api.lock_move(text)
-- 142f8ef23e9d business_api.log_api_requests(json)
-- 2135338fa6a2 business_api.log_finished(business_api.finished_deliveries)
-- 0621dc1f0be0 business_api.log_open(business_api.open_deliveries)
-- da66c93e73c3 business_api.make_day(text,timestamp with time zone,timestamp with time zone)
-- 15e0fe96fead business_api.make_days()
-- b08766657dbf business_api.make_days_ahead()
-- e8b34f293ba9 business_api.make_days_between(timestamp with time zone,timestamp with time zone)
-- 3fd2667608ab business_api.new_id(text)
-- 5b22aa0bc2b5 business_api.next_number(text,text,text,text)
-- e57126fbabef business_api.organization_tables(text[])
-- 4188293ab8c9 business_api.pick_deliveries(text,text,integer,text,timestamp with time zone)
-- 501fef539479 business_api.project_representation(text,text,text,text,numeric)
-- befd6b602d16 business_api.promote_due_retries(timestamp with time zone)
-- 5f2039de0c33 business_api.proposal_representation(text,text,text,text,integer,numeric,numeric,text)
-- ad160541df0a business_api.publish_event(text,text,json,text,text)
-- 0daa7971213e business_api.publish_event(text,text,jsonb,text,text)
-- ae2890320c46 business_api.publish_event(text,text,text,text,text)
-- dc7270dcfe75 business_api.published_at(text)
-- 2783834c805e business_api.purge_activity(integer)
-- 85d4317f5628 business_api.purge_api_requests()
-- 5e4c2bbd9ea4 business_api.purge_days(double precision,integer)
-- 8a43a28581c0 business_api.purge_events(timestamp with time zone,jsonb,integer,jsonb)
-- 61c5dfc2a9fc business_api.purge_idempotency_keys(timestamp with time zone,integer)
-- 359d58649638 business_api.purge_lag(double precision,jsonb)
-- b4912ac31a93 business_api.purge_part(double precision,jsonb,integer,boolean,jsonb)
-- 43aa490d413b business_api.purge_removed_endpoints(jsonb,integer)
-- 294cd8bf5c4f business_api.rate_allowance(text,text,double precision,integer,timestamp with time zone)
-- 98dbd13c6f6d business_api.read_activity(text,text,timestamp with time zone,timestamp with time zone,text)
-- 79b33238d211 business_api.read_api_requests(json)
-- f925efa260fa business_api.read_claims(jsonb)
-- 80b9c611e69d business_api.read_deliveries(text[],text[])
-- 6756b2e63355 business_api.recall_attempt_results(jsonb,text[],integer)
-- a49af9b08e94 business_api.reclaim_expired_leases(integer)
-- f91540055988 business_api.reclaim_lease(text,text,timestamp with time zone,integer)
-- 77ada40f1b68 business_api.record_ids(text,text)
-- ec970f173ff8 business_api.record_test(text,jsonb,integer,double precision)
-- c326b5bb6542 business_api.redeliver_event(text,text,text,jsonb)
-- 7838763762eb business_api.reject_elsewhere(text)
-- ed1115d603de business_api.release_deliveries(jsonb)
-- 7b8b737b6b12 business_api.render_events(jsonb,json,json)
-- 5dde210590c1 business_api.render_template(text,json,json)
-- d45d42859ff8 business_api.reopen_deliveries(text,text[],jsonb,integer,jsonb)
-- e45c5bc04710 business_api.report_results(jsonb,text[],jsonb[],jsonb,timestamp with time zone,integer,double precision)
-- eb923711257b business_api.retained_deliveries()
-- d1c927386349 business_api.rotate_api_key(text,text,jsonb,double precision,integer)
-- de396abda7fc business_api.scan_due_deliveries(integer,integer,text,text,integer,integer,jsonb,jsonb,text[],text[],text,timestamp with time zone)
-- c316ea2ff6fd business_api.shard_place(jsonb,jsonb)
-- 45a395123034 business_api.skip_pending(text,text)
-- a47527f36e77 business_api.spend_rate(text,text,double precision,text[],text,timestamp with time zone)
-- 004a9737d8f5 business_api.table_identity(text)
-- 47edb116705d business_api.tables_of_day(text)
-- b79fc0142c82 business_api.take_settings_turn(text)
-- 6f659a1542a4 business_api.unlisted_days()
-- e8098686cce2 business_api.write_attempt_results(jsonb,integer,double precision)
