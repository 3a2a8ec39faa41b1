-- The schema as the migrations leave it, for reading and for review: written by the test
-- test/postgres/schema.test.ts with UPDATE_SCHEMA=1, and compared by it.

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
  latest_changes text[] collate "C" default '{}'::text[] not null,
  representation text generated always as (business_api.business_representation(id, name, category, city, email, phone)) stored not null,
  copied text,
  constraint businesses_pkey PRIMARY KEY (organization_id, id)
);

create table business_api.clients (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  business_id text collate "C" not null,
  status text not null,
  total_revenue numeric(15,3) not null,
  monthly_revenue numeric(15,3) not null,
  converted_at timestamp with time zone not null,
  latest_changes text[] collate "C" default '{}'::text[] not null,
  changed_xid xid8 default pg_current_xact_id() not null,
  updated_at timestamp with time zone default now() not null,
  representation text generated always as (business_api.client_representation(id, status, total_revenue, monthly_revenue, converted_at)) stored not null,
  business_copy text,
  copy_of bigint,
  has_copy boolean generated always as (COALESCE(((business_copy IS NOT NULL) AND (copy_of = business_api.copy_key(organization_id, business_id))), false)) stored not null,
  constraint clients_pkey PRIMARY KEY (organization_id, id),
  constraint clients_organization_id_business_id_key UNIQUE (organization_id, business_id),
  constraint clients_organization_id_business_id_fkey FOREIGN KEY (organization_id, business_id) REFERENCES business_api.businesses(organization_id, id),
  constraint clients_monthly_revenue_check CHECK ((monthly_revenue <> 'NaN'::numeric)),
  constraint clients_total_revenue_check CHECK ((total_revenue <> 'NaN'::numeric))
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
  constraint delivery_attempts_pkey PRIMARY KEY (organization_id, delivery_id, number)
) partition by RANGE (delivery_id);

create table business_api.event_days (
  organization_id text collate "C" default ''::text not null,
  begins text collate "C" not null,
  ends text collate "C" not null,
  begins_at timestamp with time zone not null,
  ends_at timestamp with time zone not null,
  name text not null,
  looked_at timestamp with time zone,
  kept_by jsonb,
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

create table business_api.events (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  type text not null,
  created_at timestamp with time zone not null,
  body text not null,
  only_endpoint_id text collate "C",
  delivery_prefix text collate "C" not null,
  traceparent text,
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
  constraint finished_deliveries_state_check CHECK ((state = ANY (ARRAY['delivered'::text, 'dead_lettered'::text, 'skipped'::text, 'cancelled'::text])))
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
  constraint invoices_amount_paid_check CHECK ((((amount_paid >= (0)::numeric) AND (amount_paid <= total)) AND (amount_paid = round(amount_paid, (minor_units)::integer)))),
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
  is_retry boolean generated always as ((attempts > attempts_before)) stored not null,
  is_backing_off boolean default false not null,
  is_backfill boolean default false not null,
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
  constraint payments_pkey PRIMARY KEY (organization_id, id),
  constraint payments_organization_id_invoice_id_fkey FOREIGN KEY (organization_id, invoice_id) REFERENCES business_api.invoices(organization_id, id),
  constraint payments_amount_check CHECK ((amount > (0)::numeric))
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
  walk jsonb default '{}'::jsonb not null,
  revisit jsonb,
  revisited_at timestamp with time zone default '-infinity'::timestamp with time zone not null,
  rests_until timestamp with time zone default '-infinity'::timestamp with time zone not null,
  purged_at timestamp with time zone,
  constraint purge_progress_pkey PRIMARY KEY (organization_id),
  constraint purge_progress_organization_id_check CHECK ((organization_id = ''::text))
);

create unlogged table business_api.rate_buckets (
  organization_id text collate "C" not null,
  bucket text collate "C" not null,
  full_at double precision not null,
  held double precision default 0 not null,
  held_until double precision default 0 not null,
  held_before double precision default 0 not null,
  held_before_until double precision default 0 not null,
  constraint rate_buckets_pkey PRIMARY KEY (organization_id, bucket)
) with (fillfactor=50);

create table business_api.settings_turns (
  organization_id text collate "C" not null,
  turn bigint not null,
  constraint settings_turns_pkey PRIMARY KEY (organization_id)
);

create table business_api.webhook_endpoints (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  url text not null,
  types text[],
  state text not null,
  created_at timestamp with time zone not null,
  description text default ''::text not null,
  header_names text[] default '{}'::text[] not null,
  sealed_headers text,
  standard_webhooks boolean default false not null,
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

CREATE INDEX audit_entries_action_idx ON business_api.audit_entries USING btree (organization_id, action, id);

CREATE INDEX audit_entries_actor_idx ON business_api.audit_entries USING btree (organization_id, actor, id);

CREATE INDEX audit_entries_subject_idx ON business_api.audit_entries USING btree (organization_id, subject_id, id);

CREATE INDEX audit_entries_tests_idx ON business_api.audit_entries USING btree (organization_id, changed_at) WHERE (action = 'endpoint.test_sent'::text);

CREATE INDEX businesses_organization_id_idx ON business_api.businesses USING btree (organization_id) WHERE business_api.is_outdated(representation, copied);

CREATE INDEX clients_organization_id_changed_xid_id_idx ON business_api.clients USING btree (organization_id, changed_xid, id);

CREATE INDEX clients_organization_id_copy_of_idx ON business_api.clients USING btree (organization_id, copy_of) WHERE ((business_copy IS NOT NULL) AND (NOT has_copy));

CREATE INDEX clients_organization_id_status_id_idx ON business_api.clients USING btree (organization_id, status, id);

CREATE INDEX clients_organization_id_updated_at_id_idx ON business_api.clients USING btree (organization_id, updated_at, id);

CREATE INDEX event_ids_delivery_prefix_idx ON business_api.event_ids USING btree (delivery_prefix);

CREATE INDEX events_created_at_idx ON ONLY business_api.events USING btree (created_at, organization_id, id);

CREATE INDEX events_log_idx ON ONLY business_api.events USING btree (organization_id, created_at, id);

CREATE INDEX finished_deliveries_recoverable_idx ON ONLY business_api.finished_deliveries USING btree (organization_id, state, endpoint_id, id) WHERE (state = ANY (ARRAY['dead_lettered'::text, 'skipped'::text]));

CREATE INDEX finished_deliveries_state_idx ON ONLY business_api.finished_deliveries USING btree (organization_id, state, endpoint_id, id) WHERE (state = ANY (ARRAY['delivered'::text, 'dead_lettered'::text, 'skipped'::text, 'cancelled'::text]));

CREATE INDEX finished_deliveries_type_idx ON ONLY business_api.finished_deliveries USING btree (organization_id, type, endpoint_id, id) WHERE (state = ANY (ARRAY['delivered'::text, 'dead_lettered'::text, 'skipped'::text, 'cancelled'::text]));

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

CREATE INDEX open_deliveries_backfill_idx ON business_api.open_deliveries USING btree (organization_id, endpoint_id, is_retry, id) WHERE ((claim_token IS NULL) AND (NOT is_backing_off) AND is_backfill);

CREATE INDEX open_deliveries_backing_off_idx ON business_api.open_deliveries USING btree (due_at) WHERE is_backing_off;

CREATE INDEX open_deliveries_backing_off_log_idx ON business_api.open_deliveries USING btree (organization_id, endpoint_id, id) WHERE is_backing_off;

CREATE INDEX open_deliveries_due_idx ON business_api.open_deliveries USING btree (organization_id, endpoint_id, is_retry, id) WHERE ((claim_token IS NULL) AND (NOT is_backing_off) AND (NOT is_backfill));

CREATE INDEX open_deliveries_lease_until_idx ON business_api.open_deliveries USING btree (lease_until) WHERE (lease_until IS NOT NULL);

CREATE INDEX payments_organization_id_invoice_id_id_idx ON business_api.payments USING btree (organization_id, invoice_id, id);

CREATE INDEX projects_organization_id_changed_xid_id_idx ON business_api.projects USING btree (organization_id, changed_xid, id);

CREATE INDEX projects_organization_id_status_id_idx ON business_api.projects USING btree (organization_id, status, id);

CREATE INDEX projects_organization_id_updated_at_id_idx ON business_api.projects USING btree (organization_id, updated_at, id);

CREATE INDEX proposals_organization_id_changed_xid_id_idx ON business_api.proposals USING btree (organization_id, changed_xid, id);

CREATE INDEX proposals_organization_id_status_id_idx ON business_api.proposals USING btree (organization_id, status, id);

CREATE INDEX proposals_organization_id_updated_at_id_idx ON business_api.proposals USING btree (organization_id, updated_at, id);

CREATE INDEX webhook_endpoints_previous_secret_expires_at_idx ON business_api.webhook_endpoints USING btree (previous_secret_expires_at) WHERE (previous_secret_expires_at IS NOT NULL);

CREATE INDEX webhook_endpoints_removed_idx ON business_api.webhook_endpoints USING btree (organization_id, id) WHERE (state = 'removed'::text);

CREATE OR REPLACE FUNCTION business_api.ask_shard(organization_id text, statement text, given text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  values_given text[] := array(select jsonb_array_elements_text(given::jsonb));
  answer record;
  shard bigint;
begin
  execute statement into strict answer using
    values_given[1], values_given[2], values_given[3], values_given[4], values_given[5], values_given[6], values_given[7], values_given[8],
    values_given[9], values_given[10], values_given[11], values_given[12], values_given[13], values_given[14], values_given[15], values_given[16],
    values_given[17], values_given[18], values_given[19], values_given[20], values_given[21], values_given[22], values_given[23], values_given[24],
    values_given[25], values_given[26], values_given[27], values_given[28], values_given[29], values_given[30], values_given[31], values_given[32],
    values_given[33], values_given[34], values_given[35], values_given[36], values_given[37], values_given[38], values_given[39], values_given[40],
    values_given[41], values_given[42], values_given[43], values_given[44], values_given[45], values_given[46], values_given[47], values_given[48],
    values_given[49], values_given[50], values_given[51], values_given[52], values_given[53], values_given[54], values_given[55], values_given[56],
    values_given[57], values_given[58], values_given[59], values_given[60], values_given[61], values_given[62], values_given[63], values_given[64];
  -- Without a join, which would be planned each time: planning costs many times the look-up.
  shard := pg_catalog.get_shard_id_for_distribution_column('business_api.open_deliveries'::regclass, $1);
  if not exists (
    select 1 from pg_catalog.pg_dist_placement p
     where p.shardid = shard and p.groupid = (select here.groupid from pg_catalog.pg_dist_local_group here)
  ) then
    raise exception 'Cannot carry out the statement because the shard of the organization is on another node'
      using errcode = 'serialization_failure', hint = 'Send the statement to the coordinator again.';
  end if;
  return (select json_agg(c.value) from json_each_text(row_to_json(answer)) as c);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.ask_shard_in_transaction(organization_id text, statement text, given text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  return business_api.ask_shard(organization_id, statement, given);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.backfill_part(organization_id text, endpoint_id text, type text, template text, after_id text, record_limit integer, entry jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  at_time timestamptz := date_trunc('milliseconds', clock_timestamp());
  created_text text := to_char(at_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
  digits text := business_api.delivery_digits(at_time);
  first_end text := business_api.first_day_end();
  endpoint record;
  -- The records of the part, and those of which the endpoint was told.
  batch jsonb;
  announced text[];
  -- The ids of new events, each with the beginning of the ids of deliveries.
  taken jsonb := '{}';
  taken_id text;
  taken_prefix text;
  batch_events jsonb;
  made integer;
begin
  select e.state, e.types, e.created_at into endpoint from business_api.webhook_endpoints e
   where e.organization_id = $1 and e.id = $2 and e.state <> 'removed';
  if not found then
    return null;
  end if;
  if endpoint.state <> 'enabled' then
    return json_build_object('outcome', 'not_enabled')::text;
  end if;
  if $3 <> all (endpoint.types) then
    return json_build_object('outcome', 'not_wanted')::text;
  end if;

  if not exists (
    select 1 from business_api.event_days d
     where d.organization_id = '' and d.begins <= digits and d.ends > digits and d.dropped_at is null
  ) then
    perform business_api.make_days();
  end if;
  -- One statement after the other, each of one organization: a distributed database sends an insertion in `with` to every node.
  select coalesce(jsonb_agg(jsonb_build_object(
           'id', r.id, 'businessId', r.business_id, 'representation', r.representation,
           'second', floor(extract(epoch from business_api.id_time(r.id)))::bigint,
           'eventId', 'evt_backfill_' || left(encode(sha256(convert_to($2 || ' ' || $3 || ' ' || r.id, 'UTF8')), 'hex'), 32)
         ) order by r.id collate "C"), '[]')
    into batch
    from business_api.backfill_records($1, $3, $5, $6) as r;

  with second as materialized (
    -- A second before and after, because the clock of a process may step back between the id and the event.
    select distinct b.second + near.seconds as begins
      from jsonb_to_recordset(batch) as b (second bigint), generate_series(-1, 1) as near (seconds)
     where b.second >= extract(epoch from endpoint.created_at) - 60
  )
  -- A publisher in SQL writes a space behind the colon.
  select array_agg(distinct named.id) filter (where named.id is not null) into announced
    from second
    join lateral (
      select e.id, e.body, e.delivery_prefix from business_api.events e
       where e.organization_id = $1 and e.created_at >= to_timestamp(second.begins)
         and e.created_at < to_timestamp(second.begins + 1)
         and e.type = $3 and e.only_endpoint_id is null
    ) as event on true
    join lateral (
      select 1 from business_api.deliveries_of_event($1, event.id, event.delivery_prefix) as d
       where d.endpoint_id = $2 and d.state in ('pending', 'in_flight', 'delivered')
       limit 1
    ) as delivery on true
    -- Null for an event that names no record, as a host may publish.
    cross join lateral substring(event.body from '"' || split_part($3, '.', 1) || 'Id": ?"([^"]+)"') as named (id);

  for taken_id, taken_prefix in
    insert into business_api.event_ids as i (organization_id, id, delivery_prefix)
    select $1, b.event_id, digits || upper(lpad(to_hex(b.number), 5, '0'))
      from (
        select wanted."eventId" as event_id, row_number() over () as number
          from jsonb_to_recordset(batch) as wanted (id text, "eventId" text)
         where wanted.id <> all (coalesce(announced, '{}'))
      ) as b
    on conflict do nothing
    returning i.id, i.delivery_prefix
  loop
    taken := taken || jsonb_build_object(taken_id, taken_prefix);
  end loop;
  -- Events of the first day have no row in event_ids.
  if first_end is not null and taken <> '{}' then
    for taken_id in
      select known.id from business_api.events known
       where known.organization_id = $1 and known.id = any (array(select jsonb_object_keys(taken)))
         and known.delivery_prefix < first_end
    loop
      taken := taken - taken_id;
    end loop;
  end if;
  select coalesce(jsonb_agg(jsonb_build_object(
           'id', b."eventId", 'prefix', taken ->> b."eventId",
           'body', business_api.render_template($4, b.representation::json, json_build_object(
             'eventId', b."eventId", 'eventCreatedAt', created_text, 'businessId', b."businessId"
           ))
         )), '[]')
    into batch_events
    from jsonb_to_recordset(batch) as b (id text, "businessId" text, representation text, "eventId" text)
   where taken ? b."eventId";
  insert into business_api.events (organization_id, id, type, created_at, body, only_endpoint_id, delivery_prefix)
  select $1, e.id, $3, at_time, e.body, $2, e.prefix
    from jsonb_to_recordset(batch_events) as e (id text, body text, prefix text);
  insert into business_api.open_deliveries
    (organization_id, id, event_id, type, endpoint_id, due_at, created_at, is_backfill)
  select $1, e.prefix || '00001', e.id, $3, $2, at_time, at_time, true
    from jsonb_to_recordset(batch_events) as e (id text, prefix text);
  get diagnostics made = row_count;

  if made > 0 then
    insert into business_api.audit_entries as audit
      (organization_id, id, changed_at, actor, action, subject_id, details)
    values (
      $1, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', entry ->> 'subjectId',
      (entry -> 'details') || jsonb_build_object('events', made)
    )
    on conflict (organization_id, id) do update set
      details = audit.details || (
        '{"events":' || ((audit.details ->> 'events')::bigint + (excluded.details ->> 'events')::bigint)::text || '}'
      )::jsonb;
  end if;
  return json_build_object(
    'outcome', 'done', 'examined', jsonb_array_length(batch), 'events', made,
    'next', case when jsonb_array_length(batch) = record_limit then batch -> -1 ->> 'id' end
  )::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.backfill_records(organization_id text, type text, after_id text, record_limit integer)
 RETURNS TABLE(id text, business_id text, representation text)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
begin
  if $2 = 'business.created' then
    return query
      select r.id, r.id, r.representation from business_api.businesses r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  elsif $2 = 'client.created' then
    return query
      select r.id, r.business_id, left(r.representation, -1) || ',"business":' || b.representation || '}'
        from (
          select c.id, c.business_id, c.representation from business_api.clients c
           where c.organization_id = $1 and c.id > $3 order by c.id limit $4
        ) as r
        join business_api.businesses b on b.organization_id = $1 and b.id = r.business_id;
  elsif $2 = 'lead.created' then
    return query
      select r.id, r.business_id, r.representation from business_api.leads r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  elsif $2 = 'proposal.created' then
    return query
      select r.id, null::text, r.representation from business_api.proposals r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  else
    raise exception 'Cannot backfill % because no record has such an event', $2 using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.business_representation(id text, name text, category text, city text, email text, phone text)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
begin
  return '{"id":' || to_json(id)::text
    || ',"name":' || to_json(name)::text
    || ',"category":' || coalesce(to_json(category)::text, 'null')
    || ',"city":' || coalesce(to_json(city)::text, 'null')
    || ',"email":' || coalesce(to_json(email)::text, 'null')
    || ',"phone":' || coalesce(to_json(phone)::text, 'null')
    || '}';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.claim_deliveries(token text, is_repeat boolean, claim_limit integer, byte_budget integer, endpoint_limit integer, after_organization text, after_endpoint text, lease_ms double precision, max_attempts integer, endpoint_budget integer, organization_budget integer, endpoint_budgets jsonb, organization_budgets jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  at_time timestamptz;
  -- The claimed deliveries; the deliveries of a repeated claim come first, and have no place.
  organizations text[] := '{}';
  ids text[] := '{}';
  endpoints text[] := '{}';
  events text[] := '{}';
  places tid[];
  repeated integer := 0;
  claimed integer := 0;
  picked record;
  backfill record;
  -- Place of the first delivery whose body no longer fits into byte_budget, and which is left for the next claim.
  cut integer;
  unread_places bigint[] := '{}';
  unread json := '[]';
  -- The range of the claimed deliveries, so that a statement opens only the days of their events.
  first_prefix text;
  last_id text;
  here_organization text;
  here_endpoint text;
  is_complete boolean;
  dead_letters json := '[]';
begin
  perform set_config('synchronous_commit', 'off', true);
  at_time := clock_timestamp();
  if exists (select 1 from business_api.open_deliveries d where d.lease_until <= at_time) then
    dead_letters := business_api.reclaim_expired_leases(max_attempts);
    at_time := clock_timestamp();
  end if;
  if exists (
    select 1 from business_api.open_deliveries d where d.is_backing_off and d.due_at <= at_time
  ) then
    perform business_api.promote_due_retries(at_time);
  end if;

  if is_repeat then
    select coalesce(array_agg(d.organization_id order by d.id), '{}'), coalesce(array_agg(d.id order by d.id), '{}'),
           coalesce(array_agg(d.endpoint_id order by d.id), '{}'), coalesce(array_agg(d.event_id order by d.id), '{}')
      into organizations, ids, endpoints, events
      from business_api.open_deliveries d
     where d.lease_until > at_time and d.claim_token = $1;
    repeated := cardinality(ids);
  end if;

  select * into picked from business_api.walk_due_deliveries(
    false, true, claim_limit - repeated, endpoint_limit, after_organization, after_endpoint,
    endpoint_budget, organization_budget, endpoint_budgets, organization_budgets, organizations, endpoints
  );
  organizations := organizations || picked.organizations;
  ids := ids || picked.ids;
  endpoints := endpoints || picked.endpoints;
  events := events || picked.events;
  places := picked.places;
  claimed := cardinality(ids);
  here_organization := picked.here_organization;
  here_endpoint := picked.here_endpoint;
  is_complete := picked.is_complete;

  if claimed < claim_limit and exists (
    select 1 from business_api.open_deliveries d where d.claim_token is null and not d.is_backing_off and d.is_backfill
  ) then
    select * into backfill from business_api.walk_due_deliveries(
      true, is_complete, claim_limit - claimed, endpoint_limit, after_organization, after_endpoint,
      endpoint_budget, organization_budget, endpoint_budgets, organization_budgets, organizations, endpoints
    );
    organizations := organizations || backfill.organizations;
    ids := ids || backfill.ids;
    endpoints := endpoints || backfill.endpoints;
    events := events || backfill.events;
    places := places || backfill.places;
    claimed := cardinality(ids);
    if is_complete and not backfill.is_complete then
      is_complete := false;
      here_organization := backfill.here_organization;
      here_endpoint := backfill.here_endpoint;
    end if;
  end if;

  select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
    from unnest(ids) as claim (id);
  if claimed > 0 and byte_budget <= 0 then
    -- Neither bodies nor sizes of bodies are read, because an unreadable row must not hold up a claim.
    unread_places := array(select generate_series(1, claimed));
  elsif claimed > 0 and (
    -- Almost every claim fits, and this sum costs half as much as the places of the deliveries that do not fit.
    select sum(octet_length(event.body))
      from unnest(organizations, events, ids) as claim (organization_id, event_id, id)
      -- A delivery and its event are in the same day, which the first 14 characters of the id decide. Each event is found by its
      -- key: a join of all events of the period would read the backlog.
      cross join lateral (
        select e.body from business_api.events e
         where e.organization_id = claim.organization_id and e.id = claim.event_id
           and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
           and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
         order by e.delivery_prefix limit 1
      ) as event
  ) > byte_budget then
    select fit.unread_places, fit.cut into unread_places, cut
      from business_api.fit_bodies(
        array(
          select event.bytes
            from unnest(organizations, events, ids) with ordinality as claim (organization_id, event_id, id, place)
            left join lateral (
              select octet_length(e.body) as bytes from business_api.events e
               where e.organization_id = claim.organization_id and e.id = claim.event_id
                 and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
                 and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
               order by e.delivery_prefix limit 1
            ) as event on true
           order by claim.place
        ), byte_budget, byte_budget
      ) as fit;
    if cut is not null then
      -- Deliveries of a repeated claim that do not fit into the answer become due again.
      perform business_api.release_deliveries((
        select jsonb_agg(jsonb_build_object('organizationId', rest.organization_id, 'deliveryId', rest.id, 'token', $1))
          from unnest(organizations[cut:repeated], ids[cut:repeated]) as rest (organization_id, id)
      ));
      places := places[:cut - 1 - repeated];
      repeated := least(repeated, cut - 1);
      organizations := organizations[:cut - 1];
      ids := ids[:cut - 1];
      endpoints := endpoints[:cut - 1];
      is_complete := false;
      here_organization := organizations[cut - 1];
      here_endpoint := endpoints[cut - 1];
    end if;
  end if;

  if cardinality(places) > 0 then
    perform business_api.hold_deliveries(places, token, at_time, at_time + lease_ms * interval '1 millisecond');
  end if;
  if cardinality(unread_places) > 0 then
    select coalesce(json_agg(json_build_object(
             'organizationId', claim.organization_id, 'id', claim.id, 'endpointId', claim.endpoint_id
           ) order by claim.place) filter (where claim.place = any (unread_places)), '[]'),
           array_agg(claim.organization_id order by claim.place) filter (where claim.place <> all (unread_places)),
           array_agg(claim.id order by claim.place) filter (where claim.place <> all (unread_places))
      into unread, organizations, ids
      from unnest(organizations, ids, endpoints) with ordinality as claim (organization_id, id, endpoint_id, place);
  end if;

  return json_build_object(
    'deliveries', case when cardinality(ids) > 0 then business_api.read_deliveries(organizations, ids) else '[]' end,
    'unread', unread,
    'deadLetters', dead_letters,
    'storeTime', extract(epoch from clock_timestamp()) * 1000,
    'next', case when not is_complete
      then json_build_object('organizationId', here_organization, 'endpointId', here_endpoint)
    end
  )::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.claim_organization(organization_id text, token text, is_repeat boolean, targets jsonb, is_rest boolean, byte_limit integer, byte_budget integer, lease_ms double precision)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  target record;
  picked record;
  -- The claimed deliveries; the deliveries of a repeated claim come first.
  ids text[] := '{}';
  endpoints text[] := '{}';
  events text[] := '{}';
  repeated integer := 0;
  -- The sizes of the bodies; null for a delivery without an event.
  sizes bigint[] := '{}';
  cut integer;
  cut_endpoint text;
  unread json := '[]';
  first_prefix text;
  last_id text;
begin
  perform business_api.hold_shard($1);
  if exists (
    select 1 from business_api.open_deliveries d
     where d.organization_id = $1 and d.is_backing_off and d.due_at <= at_time
  ) then
    perform business_api.promote_retries_of($1, at_time);
  end if;

  if is_repeat then
    select coalesce(array_agg(d.id order by d.id), '{}'), coalesce(array_agg(d.endpoint_id order by d.id), '{}'),
           coalesce(array_agg(d.event_id order by d.id), '{}')
      into ids, endpoints, events
      from business_api.open_deliveries d
     where d.organization_id = $1 and d.lease_until > at_time and d.claim_token = $2;
    repeated := cardinality(ids);
  end if;

  for target in
    select t.value ->> 'endpointId' as endpoint_id, (t.value ->> 'budget')::integer as budget,
           (t.value ->> 'isBackfill')::boolean as is_backfill
      from jsonb_array_elements($4) with ordinality as t (value, place)
     order by t.place
  loop
    select * into picked from business_api.pick_deliveries(
      -- A claim that is sent again has some of the deliveries already.
      $1, target.endpoint_id, target.is_backfill, is_rest,
      target.budget - coalesce(cardinality(array_positions(endpoints[:repeated], target.endpoint_id)), 0)
    );
    if cardinality(picked.ids) > 0 then
      ids := ids || picked.ids;
      events := events || picked.events;
      endpoints := endpoints || array_fill(target.endpoint_id, array[cardinality(picked.ids)]);
    end if;
  end loop;

  if byte_limit <= 0 then
    -- Neither bodies nor sizes of bodies are read, because an unreadable row must not hold up a claim.
    sizes := array_fill(1::bigint, array[cardinality(ids)]);
  elsif cardinality(ids) > 0 then
    select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
      from unnest(ids) as claim (id);
    sizes := array_fill(null::bigint, array[cardinality(ids)]);
    for target in
      select claim.place, event.bytes
        from unnest(events, ids) with ordinality as claim (event_id, id, place)
        cross join lateral (
          select octet_length(e.body) as bytes from business_api.events e
           where e.organization_id = $1 and e.id = claim.event_id
             and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
             and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
           order by e.delivery_prefix limit 1
        ) as event
    loop
      sizes[target.place::integer] := target.bytes;
    end loop;
    select fit.cut into cut from business_api.fit_bodies(sizes, byte_limit, byte_budget) as fit;
    if cut is not null then
      -- Deliveries of a repeated claim that do not fit into the answer become due again.
      update business_api.open_deliveries d
         set attempts = d.attempts - 1, claim_token = null, claimed_at = null, lease_until = null
       where d.organization_id = $1 and d.id = any (ids[cut:repeated]) and d.claim_token = $2;
      repeated := least(repeated, cut - 1);
      cut_endpoint := endpoints[cut];
      ids := ids[:cut - 1];
      endpoints := endpoints[:cut - 1];
    end if;
  end if;

  if cardinality(ids) > repeated then
    update business_api.open_deliveries d
       set attempts = d.attempts + 1, claim_token = $2, claimed_at = at_time,
           lease_until = at_time + $8 * interval '1 millisecond'
     where d.organization_id = $1 and d.id = any (ids[repeated + 1:]);
  end if;
  select coalesce(json_agg(json_build_object(
           'organizationId', $1, 'id', claim.id, 'endpointId', claim.endpoint_id
         ) order by claim.place) filter (where sizes[claim.place::integer] > byte_limit), '[]'),
         coalesce(array_agg(claim.id order by claim.place) filter (where sizes[claim.place::integer] <= byte_limit), '{}')
    into unread, ids
    from unnest(ids, endpoints) with ordinality as claim (id, endpoint_id, place);
  return json_build_object(
    'deliveries', business_api.read_deliveries_of($1, ids), 'unread', unread, 'cutEndpoint', cut_endpoint
  )::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.client_representation(id text, status text, total_revenue numeric, monthly_revenue numeric, converted_at timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
begin
  return '{"id":' || to_json(id)::text
    || ',"status":' || to_json(status)::text
    || ',"totalRevenue":' || trim_scale(total_revenue)::text
    || ',"monthlyRevenue":' || trim_scale(monthly_revenue)::text
    || ',"convertedAt":' || coalesce(
      to_json(to_char(converted_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, 'null'
    )
    || '}';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.continue_purge(retention_ms double precision, part_limit integer, share double precision)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_variable
declare
  begun_at timestamptz := clock_timestamp();
  progress business_api.purge_progress;
  -- Age at which events are deleted row by row.
  old_ms double precision := retention_ms + business_api.day_grace_ms(retention_ms);
  day jsonb := '{}';
  part jsonb;
  second jsonb;
  is_done boolean;
begin
  select p.* into progress from business_api.purge_progress p where p.organization_id = '' for update skip locked;
  if not found and exists (select 1 from business_api.purge_progress) then
    -- Another process holds the row and purges.
    return jsonb_build_object(
      'events', 0, 'days', 0, 'idempotencyKeys', 0, 'isDone', true, 'waitMs', 0, 'lagMs', null, 'kept', json_build_array()
    );
  end if;
  -- A clock that was set back must not stop the purge.
  if progress.rests_until > begun_at and progress.rests_until < begun_at + interval '5 minutes' then
    return jsonb_build_object(
      'events', 0, 'days', 0, 'idempotencyKeys', 0, 'isDone', false,
      'waitMs', extract(epoch from progress.rests_until - begun_at) * 1000, 'lagMs', null, 'kept', json_build_array()
    );
  end if;

  begin
    day := business_api.purge_days(retention_ms, part_limit);
  exception
    -- Row level security that is forced on the schema's owner: an open delivery might be hidden.
    when insufficient_privilege then day := '{}';
  end;
  if day -> 'days' = '1' then
    update business_api.purge_progress p
       set retention_ms = retention_ms, purged_at = clock_timestamp(),
           rests_until = clock_timestamp() + (clock_timestamp() - begun_at) * (1 / share - 1)
     where p.organization_id = '';
    return jsonb_build_object(
      'events', day -> 'events', 'days', 1, 'idempotencyKeys', 0, 'isDone', false,
      'waitMs', extract(epoch from clock_timestamp() - begun_at) * 1000 * (1 / share - 1),
      'lagMs', business_api.purge_lag(retention_ms, progress.walk), 'kept', coalesce(day -> 'kept', '[]')
    );
  end if;

  -- A clock that was ahead must not leave the walk beyond events that become old later.
  if (progress.walk -> 'event' ->> 'createdAt')::timestamptz > begun_at - old_ms * interval '1 millisecond' then
    progress.walk := '{}';
  end if;

  -- If row level security hides the row, each part begins with the oldest event.
  part := business_api.purge_part(old_ms, coalesce(progress.walk, '{}'), part_limit, false, null);
  is_done := (part ->> 'isDone')::boolean and coalesce((day ->> 'isDone')::boolean, true);
  if is_done and progress.revisit is null
    and coalesce(progress.revisited_at not between begun_at - interval '1 hour' and begun_at, true)
  then
    progress.revisit := '{}';
    progress.revisited_at := begun_at;
  end if;
  if is_done and progress.revisit is not null then
    second := business_api.purge_part(old_ms, progress.revisit, part_limit, true, null);
    is_done := (second ->> 'isDone')::boolean;
    progress.revisit := case when not is_done then second -> 'walk' end;
  end if;

  update business_api.purge_progress p
     set retention_ms = retention_ms, walk = part -> 'walk',
         revisit = progress.revisit, revisited_at = progress.revisited_at,
         purged_at = clock_timestamp(),
         rests_until = case
           when is_done then '-infinity'
           else clock_timestamp() + (clock_timestamp() - begun_at) * (1 / share - 1)
         end
   where p.organization_id = '';
  return jsonb_build_object(
    'events', (part ->> 'events')::bigint + coalesce((second ->> 'events')::bigint, 0),
    'days', 0,
    'idempotencyKeys', (part ->> 'idempotencyKeys')::bigint + coalesce((second ->> 'idempotencyKeys')::bigint, 0),
    'isDone', is_done,
    'waitMs', extract(epoch from clock_timestamp() - begun_at) * 1000 * (1 / share - 1),
    'lagMs', business_api.purge_lag(retention_ms, part -> 'walk'),
    'kept', coalesce(day -> 'kept', '[]')
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.continue_purge_on_nodes(retention_ms double precision, part_limit integer, share double precision)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_variable
declare
  begun_at timestamptz := clock_timestamp();
  progress business_api.purge_progress;
  old_ms double precision := retention_ms + business_api.day_grace_ms(retention_ms);
  day jsonb := '{}';
  part jsonb;
  second jsonb;
  is_done boolean := false;
  rests_until timestamptz;
begin
  select p.* into progress from business_api.purge_progress p where p.organization_id = '' for update;
  if progress.rests_until > begun_at and progress.rests_until < begun_at + interval '5 minutes' then
    return jsonb_build_object(
      'events', 0, 'days', 0, 'idempotencyKeys', 0, 'isDone', false,
      'waitMs', extract(epoch from progress.rests_until - begun_at) * 1000, 'lagMs', null, 'kept', json_build_array()
    );
  end if;

  day := business_api.purge_days_on_nodes(retention_ms, part_limit);
  if day -> 'days' = '0' then
    -- A clock that was ahead must not leave the walk beyond events that become old later.
    if (progress.walk -> 'event' ->> 'createdAt')::timestamptz > begun_at - old_ms * interval '1 millisecond' then
      progress.walk := '{}';
    end if;
    part := business_api.purge_part(old_ms, coalesce(progress.walk, '{}'), part_limit, false, null);
    progress.walk := part -> 'walk';
    is_done := (part ->> 'isDone')::boolean;
    if is_done and progress.revisit is null
      and coalesce(progress.revisited_at not between begun_at - interval '1 hour' and begun_at, true)
    then
      progress.revisit := '{}';
      progress.revisited_at := begun_at;
    end if;
    if is_done and progress.revisit is not null then
      second := business_api.purge_part(old_ms, progress.revisit, part_limit, true, null);
      is_done := (second ->> 'isDone')::boolean;
      progress.revisit := case when not is_done then second -> 'walk' end;
    end if;
  end if;

  rests_until := case
    when is_done then '-infinity'
    else clock_timestamp() + (clock_timestamp() - begun_at) * (1 / share - 1)
  end;
  progress.purged_at := clock_timestamp();
  update business_api.purge_progress p
     set retention_ms = retention_ms, walk = progress.walk, revisit = progress.revisit, revisited_at = progress.revisited_at,
         purged_at = progress.purged_at, rests_until = rests_until
   where p.organization_id = '';
  return jsonb_build_object(
    'events', coalesce((part ->> 'events')::bigint, 0) + coalesce((second ->> 'events')::bigint, 0),
    'days', day -> 'days',
    'idempotencyKeys', coalesce((part ->> 'idempotencyKeys')::bigint, 0) + coalesce((second ->> 'idempotencyKeys')::bigint, 0),
    'isDone', is_done,
    'waitMs', extract(epoch from clock_timestamp() - begun_at) * 1000 * (1 / share - 1),
    'lagMs', business_api.purge_lag(retention_ms, progress.walk),
    'kept', coalesce(day -> 'kept', '[]')
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.copy_key(organization_id text, business_id text)
 RETURNS bigint
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO ''
AS $function$
begin
  return hashtextextended(business_id, hashtextextended(organization_id, 0));
end
$function$;

CREATE OR REPLACE FUNCTION business_api.copy_to_client(organization_id text, business_id text, representation text)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  key bigint := business_api.copy_key($1, $2);
begin
  update business_api.clients c
     set business_copy = $3, copy_of = key, changed_xid = default, updated_at = default
   where c.organization_id = $1 and c.business_id = $2;
  update business_api.clients c set business_copy = null, copy_of = null
   where c.organization_id = $1 and c.copy_of = key and c.business_copy is not null and not c.has_copy;
  return 1;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.count_api_keys_in_force(organization_id text, at_time timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  return (
    select count(*) from business_api.api_keys k
     where k.organization_id = $1
       and (k.revoked_at is null or k.revoked_at > at_time)
       and (k.expires_at is null or k.expires_at > at_time)
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.count_in_audit_entry(organization_id text, id text, actor text, action text, subject_id text, details jsonb, recovered integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
begin
  insert into business_api.audit_entries as audit (organization_id, id, changed_at, actor, action, subject_id, details)
  values ($1, $2, clock_timestamp(), $3, $4, $5, $6 || jsonb_build_object('recovered', $7))
  on conflict (organization_id, id) do update set
    details = audit.details || (
      '{"recovered":' || ((audit.details ->> 'recovered')::int + (excluded.details ->> 'recovered')::int)::text || '}'
    )::jsonb;
  return 1;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.count_queue(organization_id text, endpoint_id text, count_max integer)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  -- One more than count_max says that there are more.
  counted_max integer := count_max + 1;
  -- Of the scans of the queue and of the dead letters.
  scanned_max integer := 3 * count_max;
  visits integer := 0;
  scanned bigint;
  scanned_due bigint := 0;
  scanned_paused bigint := 0;
  scanned_oldest timestamptz;
  scanned_dead_letters bigint := 0;
  here_organization text := coalesce($1, '');
  here_endpoint text := '';
  endpoint_state text;
  found_due bigint;
  found_late bigint;
  found_backing_off bigint;
  found_paused bigint;
  found_oldest timestamptz;
  late_oldest timestamptz;
  due bigint := 0;
  oldest_due timestamptz;
  backing_off bigint := 0;
  paused bigint := 0;
  in_flight bigint := 0;
  dead_letters bigint := 0;
begin
  while visits < 1000 loop
    if visits = 200 and $1 is null then
      select count(*),
             count(*) filter (where f.endpoint_state = 'enabled' and f.due_at <= at_time),
             count(*) filter (where f.endpoint_state = 'paused'),
             min(f.due_at) filter (where f.endpoint_state = 'enabled' and f.due_at <= at_time and not f.is_backfill)
        into scanned, scanned_due, scanned_paused, scanned_oldest
        from (
          select first.due_at, first.is_backfill, e.state as endpoint_state
            from (
              (
                select d.organization_id, d.endpoint_id, d.due_at, false as is_backfill from business_api.open_deliveries d
                 where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                 order by d.organization_id, d.endpoint_id, d.is_retry, d.id
                 limit scanned_max
              )
              union all
              (
                select d.organization_id, d.endpoint_id, d.due_at, true from business_api.open_deliveries d
                 where d.claim_token is null and not d.is_backing_off and d.is_backfill
                 order by d.organization_id, d.endpoint_id, d.is_retry, d.id
                 limit scanned_max
              )
            ) as first
            left join business_api.webhook_endpoints e
              on e.organization_id = first.organization_id and e.id = first.endpoint_id
        ) as f;
      exit when scanned < scanned_max;
    end if;
    visits := visits + 1;
    if $1 is null then
      select next.organization_id, next.endpoint_id, e.state into here_organization, here_endpoint, endpoint_state
        from (
          (
            select d.organization_id, d.endpoint_id from business_api.open_deliveries d
             where d.claim_token is null and not d.is_backing_off and not d.is_backfill
               and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
             order by d.organization_id, d.endpoint_id
             limit 1
          )
          union all
          (
            select d.organization_id, d.endpoint_id from business_api.open_deliveries d
             where d.claim_token is null and not d.is_backing_off and d.is_backfill
               and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
             order by d.organization_id, d.endpoint_id
             limit 1
          )
        ) as next
        left join business_api.webhook_endpoints e on e.organization_id = next.organization_id and e.id = next.endpoint_id
       order by next.organization_id, next.endpoint_id
       limit 1;
    else
      select e.id, e.state into here_endpoint, endpoint_state
        from business_api.webhook_endpoints e
       where e.organization_id = $1 and e.id > here_endpoint and ($2 is null or e.id = $2)
       order by e.id
       limit 1;
    end if;
    exit when not found;

    if endpoint_state = 'enabled' then
      -- The oldest first attempt stands first; of the retries the oldest is found among the first hundred. Both are also read
      -- when nothing more is to be counted.
      select count(*), min(f.due_at) filter (where not f.is_backfill) into found_due, found_oldest
        from (
          (
            select d.due_at, false as is_backfill from business_api.open_deliveries d
             where d.claim_token is null and not d.is_backing_off and not d.is_backfill
               and d.organization_id = here_organization and d.endpoint_id = here_endpoint
               and not d.is_retry
             order by d.id limit greatest(1, counted_max - due)
          )
          union all
          (
            select d.due_at, false from business_api.open_deliveries d
             where d.claim_token is null and not d.is_backing_off and not d.is_backfill
               and d.organization_id = here_organization and d.endpoint_id = here_endpoint
               and d.is_retry
             order by d.id limit greatest(100, counted_max - due)
          )
          union all
          (
            select d.due_at, true from business_api.open_deliveries d
             where d.claim_token is null and not d.is_backing_off and d.is_backfill
               and d.organization_id = here_organization and d.endpoint_id = here_endpoint
               and not d.is_retry
             order by d.id limit counted_max - due
          )
          union all
          (
            select d.due_at, true from business_api.open_deliveries d
             where d.claim_token is null and not d.is_backing_off and d.is_backfill
               and d.organization_id = here_organization and d.endpoint_id = here_endpoint
               and d.is_retry
             order by d.id limit counted_max - due
          )
        ) as f;
      due := least(counted_max, due + found_due);
      oldest_due := least(oldest_due, found_oldest);
    elsif endpoint_state = 'paused' and paused < counted_max then
      select count(*) into found_paused
        from (
          (
            select 1 from business_api.open_deliveries d
             where d.claim_token is null and not d.is_backing_off and not d.is_backfill
               and d.organization_id = here_organization and d.endpoint_id = here_endpoint
             order by d.is_retry, d.id limit counted_max - paused
          )
          union all
          (
            select 1 from business_api.open_deliveries d
             where d.claim_token is null and not d.is_backing_off and d.is_backfill
               and d.organization_id = here_organization and d.endpoint_id = here_endpoint
             order by d.is_retry, d.id limit counted_max - paused
          )
        ) as f;
      paused := least(counted_max, paused + found_paused);
    end if;

    if $1 is not null then
      if endpoint_state in ('enabled', 'paused') then
        select count(*) filter (where f.due_at > at_time),
               count(*) filter (where f.due_at <= at_time),
               min(f.due_at) filter (where f.due_at <= at_time and not f.is_backfill)
          into found_backing_off, found_late, late_oldest
          from (
            select d.is_backfill, d.due_at from business_api.open_deliveries d
             where d.organization_id = $1 and d.endpoint_id = here_endpoint and d.is_backing_off
             order by d.id limit counted_max
          ) as f;
        backing_off := least(counted_max, backing_off + found_backing_off);
        if endpoint_state = 'enabled' then
          due := least(counted_max, due + found_late);
          oldest_due := least(oldest_due, late_oldest);
        else
          paused := least(counted_max, paused + found_late);
        end if;
      end if;
      select least(counted_max, dead_letters + count(*)) into dead_letters
        from (
          select 1 from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('dead_lettered', 'skipped') and d.state = 'dead_lettered'
             and d.endpoint_id = here_endpoint
           order by d.id limit counted_max - dead_letters
        ) as f;
    end if;
  end loop;

  if $1 is null then
    due := least(counted_max, greatest(due, scanned_due));
    paused := least(counted_max, greatest(paused, scanned_paused));
    oldest_due := least(oldest_due, scanned_oldest);
    select count(*) filter (where f.endpoint_state in ('enabled', 'paused')) into backing_off
      from (
        select e.state as endpoint_state
          from (
            select d.organization_id, d.endpoint_id from business_api.open_deliveries d
             where d.is_backing_off and d.due_at > at_time
             order by d.due_at limit counted_max
          ) as waiting
          left join business_api.webhook_endpoints e
            on e.organization_id = waiting.organization_id and e.id = waiting.endpoint_id
      ) as f;
    -- Retries become pending with the next claim (promote_due_retries): while no loop runs, due retries still count as backing off.
    select count(*) filter (where f.endpoint_state = 'enabled'),
           count(*) filter (where f.endpoint_state = 'paused'),
           min(f.due_at) filter (where f.endpoint_state = 'enabled' and not f.is_backfill)
      into found_due, found_paused, found_oldest
      from (
        select e.state as endpoint_state, late.due_at, late.is_backfill
          from (
            select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from business_api.open_deliveries d
             where d.is_backing_off and d.due_at <= at_time
             order by d.due_at limit counted_max
          ) as late
          join business_api.webhook_endpoints e on e.organization_id = late.organization_id and e.id = late.endpoint_id
      ) as f;
    due := least(counted_max, due + found_due);
    paused := least(counted_max, paused + found_paused);
    oldest_due := least(oldest_due, found_oldest);

    -- From organization to organization, because skipped deliveries stand between the dead letters; and the same scan.
    visits := 0;
    here_organization := '';
    while visits < 1000 and dead_letters < counted_max loop
      if visits = 200 then
        select count(*), count(*) filter (where f.state = 'dead_lettered') into scanned, scanned_dead_letters
          from (
            select d.state from business_api.finished_deliveries d
             where d.state in ('dead_lettered', 'skipped')
             order by d.organization_id, d.state, d.endpoint_id, d.id
             limit scanned_max
          ) as f;
        exit when scanned < scanned_max;
      end if;
      visits := visits + 1;
      select d.organization_id into here_organization from business_api.finished_deliveries d
       where d.state in ('dead_lettered', 'skipped') and d.organization_id > here_organization
       order by d.organization_id, d.state, d.endpoint_id, d.id
       limit 1;
      exit when not found;
      select least(counted_max, dead_letters + count(*)) into dead_letters
        from (
          select 1 from business_api.finished_deliveries d
           where d.organization_id = here_organization
             and d.state in ('dead_lettered', 'skipped') and d.state = 'dead_lettered'
           order by d.endpoint_id, d.id limit counted_max - dead_letters
        ) as f;
    end loop;
    dead_letters := least(counted_max, greatest(dead_letters, scanned_dead_letters));
  end if;

  select count(*) into in_flight
    from (
      select d.organization_id, d.endpoint_id from business_api.open_deliveries d
       where d.lease_until is not null
       order by d.lease_until limit counted_max
    ) as f
   where ($1 is null or f.organization_id = $1) and ($2 is null or f.endpoint_id = $2);

  return json_build_object(
    'due', due,
    'oldestDueMs', greatest(0, coalesce(extract(epoch from at_time - oldest_due) * 1000, 0)),
    'backingOff', backing_off,
    'paused', paused,
    'inFlight', in_flight,
    'deadLetters', dead_letters
  )::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.count_queue_of_node(organization_id text, endpoint_id text, count_max integer)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  -- One more than count_max says that there are more.
  counted_max integer := count_max + 1;
  own text := case when $1 is null then '' else ' and d.organization_id = $1' end
    || case when $2 is null then '' else ' and d.endpoint_id = $2' end;
  source record;
  found_counts record;
  due bigint := 0;
  oldest_due timestamptz;
  backing_off bigint := 0;
  paused bigint := 0;
  in_flight bigint := 0;
  dead_letters bigint := 0;
begin
  for source in select t.deliveries, t.finished, t.endpoints from business_api.tables_of_node($1) as t loop
    begin
      execute format(
        $query$
        with recursive walk (organization_id, endpoint_id, place, due, paused, oldest) as (
          values (coalesce($1, '') collate "C", '' collate "C", 0, 0::bigint, 0::bigint, null::timestamptz)
          union all
          select next.organization_id, next.endpoint_id, walk.place + 1,
                 least($3, walk.due + case when e.state = 'enabled' then pending.total else 0 end),
                 least($3, walk.paused + case when e.state = 'paused' then pending.total else 0 end),
                 least(walk.oldest, case when e.state = 'enabled' then pending.oldest end)
            from walk
            cross join lateral (
              select one.organization_id, one.endpoint_id
                from (
                  (
                    select d.organization_id, d.endpoint_id from %1$s d
                     where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                       and (d.organization_id, d.endpoint_id) > (walk.organization_id, walk.endpoint_id)
                     order by d.organization_id, d.endpoint_id limit 1
                  )
                  union all
                  (
                    select d.organization_id, d.endpoint_id from %1$s d
                     where d.claim_token is null and not d.is_backing_off and d.is_backfill
                       and (d.organization_id, d.endpoint_id) > (walk.organization_id, walk.endpoint_id)
                     order by d.organization_id, d.endpoint_id limit 1
                  )
                ) as one
               order by one.organization_id, one.endpoint_id limit 1
            ) as next
            left join lateral (
              select w.state from %3$s w
               where w.organization_id = next.organization_id and w.id = next.endpoint_id and ($2 is null or w.id = $2)
            ) as e on true
            cross join lateral (select case when e.state = 'paused' then walk.paused else walk.due end as before) as counted
            -- The oldest first attempt stands first; of the retries the oldest is found among the first hundred.
            cross join lateral (
              select count(*) as total, min(f.due_at) filter (where not f.is_backfill) as oldest
                from (
                  (
                    select d.due_at, false as is_backfill from %1$s d
                     where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                       and d.organization_id = next.organization_id and d.endpoint_id = next.endpoint_id and not d.is_retry
                     order by d.id limit greatest(1, $3 - counted.before)
                  )
                  union all
                  (
                    select d.due_at, false from %1$s d
                     where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                       and d.organization_id = next.organization_id and d.endpoint_id = next.endpoint_id and d.is_retry
                     order by d.id limit greatest(100, $3 - counted.before)
                  )
                  union all
                  (
                    select d.due_at, true from %1$s d
                     where d.claim_token is null and not d.is_backing_off and d.is_backfill
                       and d.organization_id = next.organization_id and d.endpoint_id = next.endpoint_id
                     order by d.is_retry, d.id limit $3 - counted.before
                  )
                ) as f
               where e.state in ('enabled', 'paused')
            ) as pending
           where walk.place < 2000 and ($1 is null or next.organization_id = $1)
        ), waiting as (
          select e.state, f.due_at, f.is_backfill
            from (%4$s) as f
            join %3$s e on e.organization_id = f.organization_id and e.id = f.endpoint_id
        ), walked as (
          select w.due, w.paused, w.oldest from walk w order by w.place desc limit 1
        )
        select walked.due + waited.late_due as due, walked.paused + waited.late_paused as paused,
               least(walked.oldest, waited.oldest) as oldest, waited.backing_off, (
                 select count(*) from (select 1 from %1$s d where d.lease_until is not null%5$s order by d.lease_until limit $3) as f
               ) as in_flight, (
                 %6$s
               ) as dead_letters
          from walked
          cross join (
            select count(*) filter (where w.due_at > $4 and w.state in ('enabled', 'paused')) as backing_off,
                   count(*) filter (where w.due_at <= $4 and w.state = 'enabled') as late_due,
                   count(*) filter (where w.due_at <= $4 and w.state = 'paused') as late_paused,
                   min(w.due_at) filter (where w.due_at <= $4 and w.state = 'enabled' and not w.is_backfill) as oldest
              from waiting w
          ) as waited
        $query$,
        source.deliveries, source.finished, source.endpoints,
        -- Retries become pending with the next claim: while no loop runs, due retries still count as backing off.
        case
          when $1 is not null then format(
            'select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from %s d where d.is_backing_off%s limit 3 * $3',
            source.deliveries, own
          )
          else format(
            '(
               select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from %1$s d
                where d.is_backing_off and d.due_at <= $4 order by d.due_at limit $3
             )
             union all
             (
               select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from %1$s d
                where d.is_backing_off and d.due_at > $4 order by d.due_at limit $3
             )',
            source.deliveries
          )
        end,
        own,
        case
          when $1 is not null then format(
            'select count(*)
               from (
                 select 1 from %s d
                  where d.state in (''dead_lettered'', ''skipped'') and d.state = ''dead_lettered''%s
                  limit $3
               ) as f',
            source.finished, own
          )
          -- From organization to organization, because skipped deliveries stand between the dead letters.
          else format(
            'with recursive dead (organization_id, place, total) as (
               values ('''' collate "C", 0, 0::bigint)
               union all
               select next.organization_id, dead.place + 1, dead.total + counted.total
                 from dead
                 cross join lateral (
                   select d.organization_id from %1$s d
                    where d.state in (''dead_lettered'', ''skipped'') and d.organization_id > dead.organization_id
                    order by d.organization_id, d.state, d.endpoint_id, d.id limit 1
                 ) as next
                 cross join lateral (
                   select count(*) as total
                     from (
                       select 1 from %1$s d
                        where d.organization_id = next.organization_id
                          and d.state in (''dead_lettered'', ''skipped'') and d.state = ''dead_lettered''
                        limit $3 - dead.total
                     ) as f
                 ) as counted
                where dead.place < 1000 and dead.total < $3
             )
             select max(d.total) from dead d',
            source.finished
          )
        end
      ) into found_counts using $1, $2, counted_max, at_time;
      due := least(counted_max, due + found_counts.due);
      paused := least(counted_max, paused + found_counts.paused);
      oldest_due := least(oldest_due, found_counts.oldest);
      backing_off := least(counted_max, backing_off + found_counts.backing_off);
      in_flight := least(counted_max, in_flight + found_counts.in_flight);
      dead_letters := least(counted_max, dead_letters + found_counts.dead_letters);
    exception
      -- The shard was moved to another node a moment ago.
      when undefined_table then null;
    end;
  end loop;
  return json_build_object(
    'due', due,
    'oldestDueMs', greatest(0, coalesce(extract(epoch from at_time - oldest_due) * 1000, 0)),
    'backingOff', backing_off,
    'paused', paused,
    'inFlight', in_flight,
    'deadLetters', dead_letters
  )::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.current_xid()
 RETURNS xid8
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  return pg_current_xact_id();
end
$function$;

CREATE OR REPLACE FUNCTION business_api.day_bound(at_time timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select 'dlv_' || string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', digit + 1, 1), '' order by place)
    from (
      select place, ((floor(extract(epoch from at_time) * 1000)::bigint >> (45 - 5 * place)) & 31)::int as digit
        from generate_series(0, 9) as place
    ) as digits
$function$;

CREATE OR REPLACE FUNCTION business_api.day_grace_ms(retention_ms double precision)
 RETURNS double precision
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select (business_api.day_width(retention_ms) + 1.5) * 86400000
$function$;

CREATE OR REPLACE FUNCTION business_api.day_width(retention_ms double precision)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select case
    -- Longer than any retention of a host: a loop that keeps all events.
    when retention_ms >= 500 * 365 * 86400000.0 then 30
    else greatest(1, ceil(retention_ms / 30 / 86400000))::integer
  end
$function$;

CREATE OR REPLACE FUNCTION business_api.days_end(at_time timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  here timestamptz := at_time;
  next_at timestamptz;
begin
  loop
    select max(d.ends_at) into next_at from business_api.event_days d
     where d.organization_id = '' and d.begins_at <= here and d.ends_at > here and d.dropped_at is null;
    exit when next_at is null or here >= at_time + interval '168 hours';
    here := next_at;
  end loop;
  return here;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.delete_organization_part(organization_id text, part_limit integer, after jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  targets text[];
  place integer := coalesce((after ->> 0)::integer, 1);
  columns text;
  lower_bound text := '';
  last_key jsonb;
  deleted bigint := 0;
  at_time timestamptz := clock_timestamp();
begin
  if after is null then
    update business_api.api_keys k set revoked_at = at_time
     where k.organization_id = $1 and (k.revoked_at is null or k.revoked_at > at_time);
    update business_api.webhook_endpoints e
       set state = 'removed', sealed_secret = null, previous_sealed_secret = null, previous_secret_expires_at = null,
           sealed_headers = null
     where e.organization_id = $1 and e.state <> 'removed';
  end if;

  -- Referring tables come before the tables that they refer to.
  targets := array[
    ['delivery_attempts', 'delivery_id, number'],
    ['open_deliveries', 'id'],
    ['finished_deliveries', 'id'],
    ['events', 'id'],
    ['idempotency_keys', 'operation, key'],
    ['payments', 'id'],
    ['invoices', 'id'],
    ['leads', 'id'],
    ['clients', 'id'],
    ['businesses', 'id'],
    ['proposals', 'id'],
    ['projects', 'id'],
    ['number_series', 'series'],
    ['audit_entries', 'id'],
    ['webhook_endpoints', 'id'],
    ['organization_limits', 'organization_id'],
    ['rate_buckets', 'bucket'],
    ['settings_turns', 'organization_id'],
    ['api_keys', 'id'],
    -- Last, because a walk that began before this table existed goes on by the places of the other tables.
    ['event_ids', 'id']
  ];
  columns := targets[place][2];
  if after ->> 1 is not null then
    lower_bound := format('and (%s) > (%s)', columns, business_api.literals_of(after -> 1));
  end if;
  -- A range of the primary key instead of a join: under statistics from before the organization grew, a join with the rows of
  -- the part was planned as a loop over all rows of the organization (measured: 193 s for 1000 of 400,000 attempts, now 10 ms).
  execute format(
    'select jsonb_build_array(%2$s) from (
       select %2$s from business_api.%1$I where organization_id = $1 %3$s order by %2$s limit $2
     ) as part
     order by %4$s limit 1',
    targets[place][1], columns, lower_bound, replace(columns, ',', ' desc,') || ' desc'
  ) using $1, part_limit into last_key;
  if last_key is not null then
    execute format(
      'delete from business_api.%1$I where organization_id = $1 %3$s and (%2$s) <= (%4$s)',
      targets[place][1], columns, lower_bound, business_api.literals_of(last_key)
    ) using $1;
    get diagnostics deleted = row_count;
  end if;
  return jsonb_build_object(
    'counts', case when deleted > 0 then jsonb_build_object(targets[place][1], deleted) else '{}' end,
    'next', case
      when deleted >= part_limit then jsonb_build_array(place, last_key)
      when place < array_length(targets, 1) then jsonb_build_array(place + 1, null)
    end
  );
exception
  when foreign_key_violation then
    return '{"counts": {}, "next": null}'::jsonb;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.deliveries_of_event(organization_id text, event_id text, delivery_prefix text)
 RETURNS TABLE(id text, type text, endpoint_id text, state text, created_at timestamp with time zone)
 LANGUAGE plpgsql
 STABLE ROWS 4
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION business_api.deliveries_of_events(organization_id text, event_ids text[], delivery_prefixes text[])
 RETURNS TABLE(event_id text, id text, type text, endpoint_id text, state text, created_at timestamp with time zone)
 LANGUAGE plpgsql
 STABLE ROWS 64
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  first_id text;
  end_id text;
begin
  select min(event.prefix collate "C"), max(event.prefix collate "C") || '~' into first_id, end_id
    from unnest($3) as event (prefix);
  return query
    select event.id, delivery.*
      from unnest($2, $3) as event (id, prefix)
      cross join lateral (
        select d.id, d.type, d.endpoint_id, case when d.claim_token is null then 'pending' else 'in_flight' end, d.created_at
          from business_api.open_deliveries d
         where d.organization_id = $1 and d.id >= event.prefix and d.id < event.prefix || '~' and d.event_id = event.id
        union all
        select d.id, d.type, d.endpoint_id, d.state, d.created_at
          from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= event.prefix and d.id < event.prefix || '~' and d.event_id = event.id
           and d.id >= first_id and d.id < end_id
      ) as delivery;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.delivery_digits(at_time timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  alphabet constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  microseconds bigint := floor(extract(epoch from at_time) * 1000000)::bigint;
  time_bits bigint := ((microseconds / 1000) << 10) | (microseconds % 1000);
  random_bytes bytea := uuid_send(gen_random_uuid());
  digits text := 'dlv_';
begin
  for place in 0 .. 11 loop
    digits := digits || substr(alphabet, ((time_bits >> (55 - 5 * place)) & 31)::int + 1, 1);
  end loop;
  for place in 0 .. 3 loop
    digits := digits || substr(alphabet, (get_byte(random_bytes, place) & 31) + 1, 1);
  end loop;
  return digits;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.end_attempts(results jsonb, places tid[], at_time timestamp with time zone, OUT written text[], OUT outcomes jsonb, OUT dead_letters jsonb)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_indexscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_tidscan TO 'on'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
begin
  with result as (
    select * from rows from (unnest(places), jsonb_to_recordset(results) as (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "isGone" boolean,
      "delayMs" double precision, "startedAgoMs" double precision, "endedAgoMs" double precision,
      "durationMs" real, "dnsMs" real, "connectMs" real, "tlsMs" real, "firstByteMs" real,
      status integer, error text, "bodyExcerpt" text
    )) as r (place)
  ), due_again as (
    update business_api.open_deliveries d
       set due_at = at_time + (r."delayMs" - r."endedAgoMs") * interval '1 millisecond',
           is_backing_off = r."delayMs" > 0,
           claim_token = null, claimed_at = null, lease_until = null
      from result r
     where r.outcome = 'retry' and d.ctid = r.place and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill, r.*
  ), closed as (
    delete from business_api.open_deliveries d
     using result r
     where r.outcome <> 'retry' and d.ctid = r.place and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill, r.*
  ), finished as (
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
    select c."organizationId", c."deliveryId", c.event_id, c.type, c.endpoint_id, c.outcome, c.reason, c.created_at,
           at_time - c."endedAgoMs" * interval '1 millisecond', c.attempts, c.is_backfill
      from closed c
  ), ended as (
    select * from due_again
    union all
    select * from closed
  ), logged as (
    insert into business_api.delivery_attempts (
      organization_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, first_byte_ms,
      status, error, body_excerpt
    )
    select e."organizationId", e."deliveryId", e.attempts,
           at_time - e."startedAgoMs" * interval '1 millisecond',
           e."durationMs", e."dnsMs", e."connectMs", e."tlsMs", e."firstByteMs", e.status, e.error, e."bodyExcerpt"
      from ended e
     -- No attempt is logged twice: the steps above found the claim's token and took it away, a delivery gets a token only with the
     -- next number, and a claim that is given back has logged nothing.
  ), last_success as (
    select e."organizationId", e.endpoint_id, min(e."endedAgoMs") as ago_ms
      from ended e where e.outcome = 'delivered' group by 1, 2
  ), outcome as (
    -- For an endpoint's health only the failures after the last success among these results count.
    select e."organizationId" as organization_id, e.endpoint_id,
           bool_or(e.outcome = 'delivered') as has_success,
           bool_or(e.is_failure) as has_failure,
           bool_or(e."isGone") as is_gone,
           count(*) filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity')) as failures,
           max(e."endedAgoMs") filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity'))
             as first_failure_ago_ms,
           max(e.token || ' ' || e."deliveryId") filter (where e.is_failure) as failed_attempt
      from (
        -- An attempt that the process interrupted or never made proves nothing about the endpoint.
        select x.*, x.outcome <> 'delivered' and coalesce(x.error, '') not in ('interrupted', 'unreadable') as is_failure
          from ended x
      ) as e
      left join last_success s on s."organizationId" = e."organizationId" and s.endpoint_id = e.endpoint_id
     group by 1, 2
  ), dead_letter as (
    select e."organizationId", e.endpoint_id as "endpointId", e."deliveryId", e.event_id as "eventId", e.type, e.reason
      from ended e
     where e.outcome = 'dead_lettered'
  )
  select coalesce((select array_agg(e.token || ' ' || e."deliveryId") from ended e), '{}'),
         coalesce((select jsonb_agg(o) from outcome o), '[]'),
         coalesce((select jsonb_agg(l) from dead_letter l), '[]')
    into written, outcomes, dead_letters;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.ensure_day(at_time timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  digits text collate "C" := business_api.delivery_digits(at_time);
  day record;
begin
  select d.ends into day from business_api.event_days d
   where d.organization_id = '' and d.begins <= digits and d.ends > digits and d.dropped_at is null;
  if not found then
    perform business_api.make_days();
    return;
  end if;
  -- Of a distributed table the coordinator makes the days: its loops do.
  if to_regclass('pg_catalog.pg_dist_partition') is null and business_api.days_end(at_time) < at_time + interval '48 hours' then
    perform business_api.make_days_ahead();
  end if;
  perform set_config('business_api.day_known_from', digits, false);
  perform set_config(
    'business_api.day_known_until', least(day.ends, business_api.delivery_digits(at_time + interval '10 minutes') collate "C"), false
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.event_types()
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select array[
    'client.created',
    'lead.created', 'lead.stage_changed',
    'proposal.created', 'proposal.sent', 'proposal.accepted', 'proposal.rejected',
    'invoice.issued', 'invoice.paid', 'invoice.overdue', 'payment.received',
    'project.completed',
    'support.ticket_created', 'support.ticket_status_changed',
    'business.created',
    'marketing.campaign_created', 'marketing.campaign_activated', 'marketing.campaign_paused',
    'marketing.campaign_completed', 'marketing.campaign_submitted', 'marketing.campaign_failed',
    'marketing.lead_captured', 'marketing.attribution_captured', 'marketing.provider_sync_completed'
  ]
$function$;

CREATE OR REPLACE FUNCTION business_api.find_due_deliveries(token text, after_organization text, after_endpoint text, endpoint_limit integer, count_limit integer)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  source record;
  part json;
  parts json[] := '{}';
begin
  for source in select t.deliveries, t.endpoints from business_api.tables_of_node() as t loop
    begin
      execute format(
        $query$
        with recursive due (organization_id, endpoint_id, lap, place) as (
          values (coalesce($2, '') collate "C", coalesce($3, '') collate "C", 0, 0), ('', '', 1, 0)
          union all
          select next.organization_id, next.endpoint_id, due.lap, due.place + 1
            from due
            cross join lateral (
              select d.organization_id, d.endpoint_id from %1$s d
               where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                 and (d.organization_id, d.endpoint_id) > (due.organization_id, due.endpoint_id)
               order by d.organization_id, d.endpoint_id limit 1
            ) as next
           where due.place < $4 and (due.lap = 0 or (next.organization_id, next.endpoint_id) <= ($2, $3))
        ), due_backfill (organization_id, endpoint_id, lap, place) as (
          values (coalesce($2, '') collate "C", coalesce($3, '') collate "C", 0, 0), ('', '', 1, 0)
          union all
          select next.organization_id, next.endpoint_id, due_backfill.lap, due_backfill.place + 1
            from due_backfill
            cross join lateral (
              select d.organization_id, d.endpoint_id from %1$s d
               where d.claim_token is null and not d.is_backing_off and d.is_backfill
                 and (d.organization_id, d.endpoint_id) > (due_backfill.organization_id, due_backfill.endpoint_id)
               order by d.organization_id, d.endpoint_id limit 1
            ) as next
           where due_backfill.place < $4 and (due_backfill.lap = 0 or (next.organization_id, next.endpoint_id) <= ($2, $3))
        ), found as (
          select 'due' as reason, w.organization_id, w.endpoint_id, false as is_backfill, w.lap, counted.total
            from due w
            cross join lateral (
              select count(*) as total
                from (
                  select 1 from %1$s d
                   where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                     and d.organization_id = w.organization_id and d.endpoint_id = w.endpoint_id
                   limit $5
                ) as f
            ) as counted
           where w.place > 0
          union all
          select 'due', w.organization_id, w.endpoint_id, true, w.lap, counted.total
            from due_backfill w
            cross join lateral (
              select count(*) as total
                from (
                  select 1 from %1$s d
                   where d.claim_token is null and not d.is_backing_off and d.is_backfill
                     and d.organization_id = w.organization_id and d.endpoint_id = w.endpoint_id
                   limit $5
                ) as f
            ) as counted
           where w.place > 0
          union all
          select 'expired', f.organization_id, f.endpoint_id, f.is_backfill, null, count(*)
            from (
              select d.organization_id, d.endpoint_id, d.is_backfill from %1$s d
               where d.lease_until <= $6 order by d.lease_until limit 500
            ) as f
           group by f.organization_id, f.endpoint_id, f.is_backfill
          union all
          select 'retry', f.organization_id, f.endpoint_id, f.is_backfill, null, count(*)
            from (
              select d.organization_id, d.endpoint_id, d.is_backfill from %1$s d
               where d.is_backing_off and d.due_at <= $6 order by d.due_at limit 500
            ) as f
           group by f.organization_id, f.endpoint_id, f.is_backfill
          union all
          select 'claimed', d.organization_id, d.endpoint_id, false, null, count(*) from %1$s d
           where $1 is not null and d.lease_until > $6 and d.claim_token = $1
           group by d.organization_id, d.endpoint_id
        )
        select json_agg(json_build_array(
                 f.reason, f.organization_id, f.endpoint_id, e.state, f.is_backfill, f.lap, f.total
               ))
          from found f
          left join lateral (
            select w.state from %2$s w where w.organization_id = f.organization_id and w.id = f.endpoint_id
          ) as e on true
        $query$,
        source.deliveries, source.endpoints
      ) into part using token, after_organization, after_endpoint, endpoint_limit, count_limit, at_time;
      if part is not null then
        parts := parts || part;
      end if;
    exception
      -- The shard was moved to another node a moment ago.
      when undefined_table then null;
    end;
  end loop;
  return coalesce((select json_agg(r.value) from unnest(parts) as p, json_array_elements(p) as r), '[]')::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.find_events(organization_id text, ids text[])
 RETURNS SETOF business_api.events
 LANGUAGE plpgsql
 STABLE ROWS 8
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  missing text[] := array(select distinct wanted.id from unnest($2) as wanted (id));
  sought text[];
  first_prefix text;
  last_prefix text;
  event business_api.events;
begin
  for step in 1 .. 3 loop
    exit when cardinality(missing) = 0;
    if step = 1 then
      select array_agg(m.id), min(m.id collate "C"), max(m.id collate "C") into sought, first_prefix, last_prefix
        from unnest(missing) as m (id) where m.id ~ '^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$';
      -- The clock of a process may differ, and the statement may have been sent again.
      first_prefix := business_api.day_bound(business_api.id_time(first_prefix) - interval '5 minutes');
      last_prefix := business_api.day_bound(business_api.id_time(last_prefix) + interval '5 minutes');
    elsif step = 2 then
      select array_agg(known.id), min(known.delivery_prefix collate "C"), max(known.delivery_prefix collate "C")
        into sought, first_prefix, last_prefix
        from unnest(missing) as m (id)
        cross join lateral (
          select i.id, i.delivery_prefix from business_api.event_ids i
           where i.organization_id = $1 and i.id = m.id
           limit 1
        ) as known;
    else
      sought := missing;
      first_prefix := '';
      last_prefix := '~';
    end if;
    continue when sought is null;
    for event in
      select found.*
        from unnest(sought) as wanted (id)
        cross join lateral (
          select e.* from business_api.events e
           where e.organization_id = $1 and e.id = wanted.id
             and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_prefix
           order by e.delivery_prefix limit 1
        ) as found
    loop
      missing := array_remove(missing, event.id);
      return next event;
    end loop;
  end loop;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.find_open_delivery(begins text, ends text)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  here_organization text := '';
  here_id text := '';
  found_delivery record;
begin
  for step in 1 .. 100000 loop
    select d.organization_id, d.id, d.endpoint_id, d.created_at into found_delivery from business_api.open_deliveries d
     where (d.organization_id, d.id) >= (here_organization, here_id)
     order by d.organization_id, d.id
     limit 1;
    if not found then
      return null;
    end if;
    here_organization := found_delivery.organization_id;
    if found_delivery.id collate "C" < begins then
      here_id := begins;
    elsif found_delivery.id collate "C" < ends then
      return jsonb_build_object(
        'organizationId', found_delivery.organization_id, 'endpointId', found_delivery.endpoint_id,
        'since', to_char(found_delivery.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      );
    else
      here_id := '~';
    end if;
  end loop;
  return '{}';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.find_open_delivery_of_node(begins text, ends text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  source record;
  here_organization text;
  here_id text;
  found_delivery record;
begin
  for source in select t.deliveries from business_api.tables_of_node() as t loop
    here_organization := '';
    here_id := '';
    for step in 1 .. 10000 loop
      execute format(
        'select d.organization_id, d.id, d.endpoint_id, d.created_at from %s d
          where (d.organization_id, d.id) >= ($1, $2) order by d.organization_id, d.id limit 1',
        source.deliveries
      ) into found_delivery using here_organization, here_id;
      exit when found_delivery.id is null;
      here_organization := found_delivery.organization_id;
      if found_delivery.id collate "C" < begins then
        here_id := begins;
      elsif found_delivery.id collate "C" < ends then
        return jsonb_build_object(
          'organizationId', found_delivery.organization_id, 'endpointId', found_delivery.endpoint_id,
          'since', to_char(found_delivery.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        )::text;
      else
        here_id := '~';
      end if;
      if step = 10000 then
        return '{}';
      end if;
    end loop;
  end loop;
  return 'null';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.find_open_delivery_on_nodes(begins text, ends text)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  node record;
  holder jsonb;
begin
  for node in
    execute 'select success, result from pg_catalog.run_command_on_all_nodes($1, give_warning_for_connection_errors => true)'
      using format('select business_api.find_open_delivery_of_node(%L, %L)', begins, ends)
  loop
    if not node.success then
      holder := coalesce(holder, '{}');
    elsif node.result <> 'null' then
      return node.result::jsonb;
    end if;
  end loop;
  return holder;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.first_day_end()
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select d.ends from business_api.event_days d where d.organization_id = '' and d.begins = '' and d.dropped_at is null
$function$;

CREATE OR REPLACE FUNCTION business_api.first_free_number(organization_id text, series text, table_name text, taken bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
AS $function$
begin
  return (select min(counts.count) + 1
    from (
      select count, lead(count) over (order by count) as next
        from (
          select substr(number, length($2) + 2)::bigint as count, number
            from (
              select i.number from business_api.invoices i
               where $3 = 'business_api.invoices' and i.organization_id = $1
              union all
              select p.number from business_api.proposals p
               where $3 <> 'business_api.invoices' and p.organization_id = $1
            ) as numbers
           where left(number, length($2) + 1) = $2 || '-' and substr(number, length($2) + 2) ~ '^[0-9]{4,18}$'
        ) as given
       -- A number in another form, such as `INV-2026-00042`, takes no number of the series.
       where count >= taken and number = business_api.format_number($2, count)
    ) as counts
   where counts.next is distinct from counts.count + 1);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.fit_bodies(sizes bigint[], byte_limit integer, byte_budget integer, OUT unread_places bigint[], OUT cut integer)
 RETURNS record
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select coalesce(array_agg(s.place) filter (where s.bytes > byte_limit), '{}'),
         min(s.place) filter (where s.bytes <= byte_limit and s.bytes_so_far > byte_budget)
    from (
      select size.place, size.bytes,
             sum(size.bytes) filter (where size.bytes <= byte_limit) over (order by size.place) as bytes_so_far
        from unnest(sizes) with ordinality as size (bytes, place)
    ) as s
$function$;

CREATE OR REPLACE FUNCTION business_api.forget_business_in(body text, business_id text)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
declare
  path text;
  shown json;
begin
  if strpos(body, to_json(business_id)::text) = 0 then
    return body;
  end if;
  foreach path in array array[
    '{}', '{business}', '{client,business}', '{data}', '{data,business}', '{data,client,business}'
  ] loop
    shown := body::json #> path::text[];
    if json_typeof(shown) = 'object' and shown ->> 'id' = business_id and shown ->> 'name' is not null then
      body := replace(body, shown::text, business_api.business_representation(business_id, 'Deleted', null, null, null, null));
    end if;
  end loop;
  return body;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.forget_business_part(organization_id text, business_id text, proposal_ids jsonb, part_limit integer, after jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  counts jsonb := '{}';
  changed bigint;
  inspected integer := 0;
  entry record;
  matching text[] := '{}';
  next jsonb;
  shown text;
  key bigint;
  has_other_copies boolean;
begin
  if after is null then
    -- A lead's conversion that has made a client of the business, and is not committed, ends first.
    perform 1 from business_api.businesses b where b.organization_id = $1 and b.id = $2 for update;
    if not found then
      -- A business that was deleted by hand may be left as a copy.
      perform business_api.copy_to_client($1, $2, null);
      return null;
    end if;
    -- The copies are overwritten too if only they have personal values, because SQL has changed the business or restored a client.
    shown := business_api.business_representation($2, 'Deleted', null, null, null, null);
    key := business_api.copy_key($1, $2);
    has_other_copies := exists (
      select 1 from business_api.clients c
       where c.organization_id = $1 and c.business_id = $2 and c.business_copy <> shown
    ) or exists (
      select 1 from business_api.clients c
       where c.organization_id = $1 and c.copy_of = key and c.business_copy is not null and not c.has_copy
         and c.business_copy <> shown
    );
    update business_api.businesses b
       set name = 'Deleted', category = null, city = null, email = null, phone = null, copied = shown
     where b.organization_id = $1 and b.id = $2 and (b.representation <> shown or b.copied <> shown or has_other_copies);
    get diagnostics changed = row_count;
    if changed > 0 then
      perform business_api.copy_to_client($1, $2, shown);
    end if;
    counts := counts || jsonb_build_object('businesses', changed);
    update business_api.proposals p set signed_by = 'Deleted', changed_xid = default, updated_at = default
     where p.organization_id = $1 and p.id = any (array(select jsonb_array_elements_text($3))) and p.signed_by <> 'Deleted';
    get diagnostics changed = row_count;
    counts := counts || jsonb_build_object('proposals', changed);
    next := jsonb_build_array('events', '');

  elsif after ->> 0 = 'events' then
    for entry in
      select e.id, e.type, e.body from business_api.events e
       where e.organization_id = $1 and e.id > after ->> 1
       order by e.id limit part_limit
    loop
      inspected := inspected + 1;
      next := jsonb_build_array('events', entry.id);
      -- The types that name a business; the first two show it too. Two conditions, because only the second one reads the body.
      if entry.type in (
        'business.created', 'client.created', 'lead.created', 'lead.stage_changed', 'marketing.lead_captured'
      ) then
        if strpos(entry.body, to_json($2)::text) > 0 then
          matching := matching || entry.id;
        end if;
      end if;
    end loop;
    update business_api.events e set body = business_api.forget_business_in(e.body, $2)
     where e.organization_id = $1 and e.id = any (matching) and e.body <> business_api.forget_business_in(e.body, $2);
    get diagnostics changed = row_count;
    counts := counts || jsonb_build_object('events', changed);
    update business_api.delivery_attempts a set body_excerpt = ''
     where matching <> '{}' and a.organization_id = $1 and a.body_excerpt <> '' and a.delivery_id = any (array(
       select d.id
         from business_api.events e
         cross join lateral business_api.deliveries_of_event($1, e.id, e.delivery_prefix) as d
        where e.organization_id = $1 and e.id = any (matching)
     ));
    get diagnostics changed = row_count;
    counts := counts || jsonb_build_object('delivery_attempts', changed);
    if inspected < part_limit then
      next := jsonb_build_array('idempotency_keys', '', '');
    end if;

  else
    changed := 0;
    for entry in
      select k.operation, k.key, k.reply from business_api.idempotency_keys k
       where k.organization_id = $1 and (k.operation, k.key) > (after ->> 1, after ->> 2)
       order by k.operation, k.key limit part_limit
    loop
      inspected := inspected + 1;
      next := jsonb_build_array('idempotency_keys', entry.operation, entry.key);
      if business_api.forget_business_in(entry.reply, $2) <> entry.reply then
        update business_api.idempotency_keys k set reply = business_api.forget_business_in(k.reply, $2)
         where k.organization_id = $1 and k.operation = entry.operation and k.key = entry.key;
        changed := changed + 1;
      end if;
    end loop;
    counts := counts || jsonb_build_object('idempotency_keys', changed);
    if inspected < part_limit then
      next := null;
    end if;
  end if;
  return jsonb_build_object('counts', counts, 'next', next);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.format_number(series text, count bigint)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$ select series || '-' || lpad(count::text, greatest(4, length(count::text)), '0') $function$;

CREATE OR REPLACE FUNCTION business_api.held_tokens(held double precision, held_until double precision, held_before double precision, held_before_until double precision, at double precision)
 RETURNS double precision
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  return case when at < held_until then held else 0 end + case when at < held_before_until then held_before else 0 end;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.hold_deliveries(places tid[], token text, claimed_at timestamp with time zone, lease_until timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_indexscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_tidscan TO 'on'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
begin
  update business_api.open_deliveries d
     set attempts = d.attempts + 1, claim_token = $2, claimed_at = $3, lease_until = $4
   where d.ctid = any ($1);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.hold_shard(organization_id text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
begin
  update business_api.open_deliveries d set due_at = d.due_at where d.organization_id = $1 and d.id = '';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.id_time(id text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select case when id ~ '_[0-7][0-9A-HJKMNP-TV-Z]{25}$' then to_timestamp((
    select sum(
      (strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(right(id, 26), place, 1)) - 1)::bigint << (5 * (10 - place))
    ) from generate_series(1, 10) as place
  ) / 1000.0) end
$function$;

CREATE OR REPLACE FUNCTION business_api.import_records(organization_id text, records jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  known jsonb;
  businesses jsonb := (
    select coalesce(jsonb_object_agg(g ->> 'id', g), '{}') from jsonb_array_elements(records -> 'business') as g
  );
  invoices jsonb := (
    select coalesce(jsonb_object_agg(g ->> 'id', g), '{}') from jsonb_array_elements(records -> 'invoice') as g
  );
  payment_ids text[] := array(select g ->> 'id' from jsonb_array_elements(records -> 'payment') as g);
  kept_businesses jsonb;
  -- The copies for new clients, by the ids of the businesses.
  copies jsonb;
  taken text[];
  kept_invoices jsonb;
  refused jsonb;
  expected bigint;
  inserted bigint;
  written bigint := 0;
  moved record;
begin
  -- Locked in the order of the names, before anything is read: a number that another transaction is giving out is then visible.
  insert into business_api.number_series as s (organization_id, series, last)
  select $1, g.series, 0
    from jsonb_to_recordset((records -> 'invoice') || (records -> 'proposal')) as g (series text)
   where g.series is not null
   group by g.series
   order by g.series
  on conflict (organization_id, series) do update set last = s.last;

  -- Locked for the same reason: the payments of an invoice are added up.
  perform 1 from business_api.invoices i
    where i.organization_id = $1
      and i.id = any (array(select g ->> 'invoiceId' from jsonb_array_elements(records -> 'payment') as g))
    order by i.id for update;

  select coalesce(jsonb_object_agg(k.row, k.is_same), '{}') into known from (
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'business')
             as g (row integer, id text, name text, category text, city text, email text, phone text)
      cross join lateral (
        select b.representation = business_api.business_representation(
                 g.id, g.name, g.category, g.city, g.email, g.phone
               ) as is_same
          from business_api.businesses b where b.organization_id = $1 and b.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'client')
             as g (
               row integer, id text, "businessId" text, status text, "totalRevenue" numeric, "monthlyRevenue" numeric,
               "convertedAt" timestamptz
             )
      cross join lateral (
        select c.business_id = g."businessId" and c.representation = business_api.client_representation(
                 g.id, g.status, g."totalRevenue", g."monthlyRevenue", g."convertedAt"
               ) as is_same
          from business_api.clients c where c.organization_id = $1 and c.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'lead')
             as g (
               row integer, id text, "businessId" text, stage text, "leadScore" numeric, "scoreBand" text,
               "expectedValue" numeric, "createdAt" timestamptz
             )
      cross join lateral (
        select l.business_id = g."businessId" and l.representation = business_api.lead_representation(
                 g.id, g.stage, g."leadScore", g."scoreBand", g."expectedValue", g."createdAt"
               ) as is_same
          from business_api.leads l where l.organization_id = $1 and l.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'proposal')
             as g (
               row integer, id text, number text, title text, status text, version integer, total numeric,
               "monthlyTotal" numeric, currency text, "signedBy" text, "signedAt" timestamptz
             )
      cross join lateral (
        select p.signed_by is not distinct from g."signedBy" and p.signed_at is not distinct from g."signedAt"
               and p.representation = business_api.proposal_representation(
                 g.id, g.number, g.title, g.status, g.version, g.total, g."monthlyTotal", g.currency
               ) as is_same
          from business_api.proposals p where p.organization_id = $1 and p.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'invoice')
             as g (
               row integer, id text, number text, status text, currency text, "minorUnits" integer,
               "issueDate" timestamptz, "dueDate" timestamptz, total numeric, "amountPaid" numeric
             )
      cross join lateral (
        select i.representation = business_api.invoice_representation(
                 g.id, g.number, g.status, g.currency, g."minorUnits", g."issueDate", g."dueDate", g.total, g."amountPaid"
               ) as is_same
          from business_api.invoices i where i.organization_id = $1 and i.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'payment')
             as g (row integer, id text, "invoiceId" text, amount numeric, "receivedAt" timestamptz)
      cross join lateral (
        select p.invoice_id = g."invoiceId" and p.amount = g.amount and p.received_at = g."receivedAt" as is_same
          from business_api.payments p where p.organization_id = $1 and p.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'project')
             as g (row integer, id text, name text, status text, "billingType" text, value numeric)
      cross join lateral (
        select p.representation = business_api.project_representation(
                 g.id, g.name, g.status, g."billingType", g.value
               ) as is_same
          from business_api.projects p where p.organization_id = $1 and p.id = g.id
         limit 1
      ) as kept
  ) as k;

  -- A new payment of an invoice that differs is left out with the invoice.
  select known || coalesce(jsonb_object_agg(g.row, false), '{}') into known
    from jsonb_to_recordset(records -> 'payment') as g (row integer, "invoiceId" text)
   where not known ? g.row::text and known ->> (invoices #>> array[g."invoiceId", 'row']) = 'false';

  -- Look-ups of their own, because a distributed database refuses an outer join from the records to a table.
  select coalesce(jsonb_object_agg(g.id, true), '{}') into kept_businesses
    from (
      select distinct r."businessId" as id
        from jsonb_to_recordset((records -> 'client') || (records -> 'lead')) as r ("businessId" text)
    ) as g
    cross join lateral (
      select 1 as one from business_api.businesses b where b.organization_id = $1 and b.id = g.id
       limit 1
    ) as kept;
  select coalesce(jsonb_object_agg(g.id, jsonb_build_object(
           'minorUnits', kept.minor_units, 'amountPaid', kept.amount_paid, 'paid', kept.paid
         )), '{}')
    into kept_invoices
    from (
      select distinct r."invoiceId" as id from jsonb_to_recordset(records -> 'payment') as r ("invoiceId" text)
    ) as g
    cross join lateral (
      select i.minor_units, i.amount_paid, (
               select sum(other.amount) from business_api.payments other
                where other.organization_id = $1 and other.invoice_id = i.id and not other.id = any (payment_ids)
             ) as paid
        from business_api.invoices i where i.organization_id = $1 and i.id = g.id
       limit 1
    ) as kept;

  -- Another transaction may have written the same records since: each condition leaves the ids of the batch out.
  select jsonb_agg(jsonb_build_object('row', r.row, 'reason', r.reason) order by r.row) into refused from (
    select all_reasons.row, min(all_reasons.reason) as reason from (
      select g.row, 'no_business' as reason
        from jsonb_to_recordset((records -> 'client') || (records -> 'lead')) as g (row integer, "businessId" text)
       where not known ? g.row::text and not kept_businesses ? g."businessId" and not businesses ? g."businessId"
      union all
      select g.row, 'business_taken'
        from jsonb_to_recordset(records -> 'client') as g (row integer, id text, "businessId" text)
        cross join lateral (
          select c.id from business_api.clients c where c.organization_id = $1 and c.business_id = g."businessId"
           limit 1
        ) as kept
       where not known ? g.row::text and kept.id <> g.id
      union all
      select g.row, 'number_taken'
        from jsonb_to_recordset(records -> 'proposal') as g (row integer, id text, number text)
        cross join lateral (
          select p.id from business_api.proposals p where p.organization_id = $1 and p.number = g.number
           limit 1
        ) as kept
       where not known ? g.row::text and kept.id <> g.id
      union all
      select g.row, 'number_taken'
        from jsonb_to_recordset(records -> 'invoice') as g (row integer, id text, number text)
        cross join lateral (
          select i.id from business_api.invoices i where i.organization_id = $1 and i.number = g.number
           limit 1
        ) as kept
       where not known ? g.row::text and kept.id <> g.id
      union all
      select p.row, case
               when p.minor_units is null then 'no_invoice'
               when p.amount <> round(p.amount, p.minor_units) then 'too_fine'
               else 'overpaid'
             end
        from (
          select g.row, g.amount,
                 coalesce(
                   (kept_invoices #>> array[g."invoiceId", 'minorUnits'])::integer,
                   (invoices #>> array[g."invoiceId", 'minorUnits'])::integer
                 ) as minor_units,
                 coalesce(
                   (kept_invoices #>> array[g."invoiceId", 'amountPaid'])::numeric,
                   (invoices #>> array[g."invoiceId", 'amountPaid'])::numeric
                 ) as amount_paid,
                 coalesce((kept_invoices #>> array[g."invoiceId", 'paid'])::numeric, 0) + sum(g.amount) filter (where coalesce((known ->> g.row::text)::boolean, true))
                   over (partition by g."invoiceId") as paid
            from jsonb_to_recordset(records -> 'payment') as g (row integer, "invoiceId" text, amount numeric)
        ) as p
       where not known ? p.row::text
         and (p.minor_units is null or p.amount <> round(p.amount, p.minor_units) or p.paid > p.amount_paid)
    ) as all_reasons
    group by all_reasons.row
  ) as r;
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;

  -- The rows are counted from `returning`, because the row count of a distributed insert includes the conflicts.
  with added as (
    insert into business_api.businesses (organization_id, id, name, category, city, email, phone, copied)
    select $1, g.id, g.name, g.category, g.city, g.email, g.phone,
           business_api.business_representation(g.id, g.name, g.category, g.city, g.email, g.phone)
      from jsonb_to_recordset(records -> 'business')
             as g (row integer, id text, name text, category text, city text, email text, phone text)
     where not known ? g.row::text
    on conflict do nothing
    returning id, copied
  )
  select count(*), coalesce(jsonb_object_agg(id, copied), '{}') into inserted, copies from added;
  written := written + inserted;

  -- The businesses of new clients that exist already are updated as a conversion does: see "Copies of businesses" in 0002. The client of
  -- a business that another transaction has locked gets no copy, so that an import does not wait for SQL of the host.
  taken := array(
    select distinct g."businessId" from jsonb_to_recordset(records -> 'client') as g (row integer, "businessId" text)
     where not known ? g.row::text and kept_businesses ? g."businessId"
  );
  taken := array(
    select b.id from business_api.businesses b
     where b.organization_id = $1 and b.id = any (taken)
       for no key update skip locked
  );
  with held as (
    update business_api.businesses b set copied = b.representation
     where b.organization_id = $1 and b.id = any (taken) and (b.copied = b.representation or b.copied is null)
    returning b.id, b.copied
  )
  select copies || coalesce(jsonb_object_agg(h.id, h.copied), '{}') into copies from held h;

  with added as (
    insert into business_api.clients
      (
        organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at, business_copy, copy_of
      )
    select $1, g.id, g."businessId", g.status, g."totalRevenue", g."monthlyRevenue", g."convertedAt",
           copies ->> g."businessId", business_api.copy_key($1, g."businessId")
      from jsonb_to_recordset(records -> 'client')
             as g (
               row integer, id text, "businessId" text, status text, "totalRevenue" numeric, "monthlyRevenue" numeric,
               "convertedAt" timestamptz
             )
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.leads
      (organization_id, id, business_id, stage, lead_score, score_band, expected_value, created_at)
    select $1, g.id, g."businessId", g.stage, g."leadScore", g."scoreBand", g."expectedValue", g."createdAt"
      from jsonb_to_recordset(records -> 'lead')
             as g (
               row integer, id text, "businessId" text, stage text, "leadScore" numeric, "scoreBand" text,
               "expectedValue" numeric, "createdAt" timestamptz
             )
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.proposals
      (
        organization_id, id, number, title, status, version, total, monthly_total, currency, minor_units, signed_by, signed_at
      )
    select $1, g.id, g.number, g.title, g.status, g.version, g.total, g."monthlyTotal", g.currency, g."minorUnits",
           g."signedBy", g."signedAt"
      from jsonb_to_recordset(records -> 'proposal')
             as g (
               row integer, id text, number text, title text, status text, version integer, total numeric,
               "monthlyTotal" numeric, currency text, "minorUnits" integer, "signedBy" text, "signedAt" timestamptz
             )
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.invoices
      (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
    select $1, g.id, g.number, g.status, g.currency, g."minorUnits", g."issueDate", g."dueDate", g.total, g."amountPaid"
      from jsonb_to_recordset(records -> 'invoice')
             as g (
               row integer, id text, number text, status text, currency text, "minorUnits" integer,
               "issueDate" timestamptz, "dueDate" timestamptz, total numeric, "amountPaid" numeric
             )
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.payments (organization_id, id, invoice_id, amount, received_at)
    select $1, g.id, i.id, round(g.amount, i.minor_units), g."receivedAt"
      from jsonb_to_recordset(records -> 'payment')
             as g (row integer, id text, "invoiceId" text, amount numeric, "receivedAt" timestamptz)
      cross join lateral (
        select i.id, i.minor_units from business_api.invoices i where i.organization_id = $1 and i.id = g."invoiceId"
         limit 1
      ) as i
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.projects (organization_id, id, name, status, billing_type, value)
    select $1, g.id, g.name, g.status, g."billingType", g.value
      from jsonb_to_recordset(records -> 'project')
             as g (row integer, id text, name text, status text, "billingType" text, value numeric)
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  select count(*) into expected
    from jsonb_each(records) as kind, jsonb_array_elements(kind.value) as g
   where not known ? (g ->> 'row');
  if written <> expected then
    -- Another transaction wrote one of the ids or numbers first: the batch is sent again, and then sees the record.
    raise exception 'Cannot import the records because another transaction wrote one of them first'
      using errcode = 'serialization_failure';
  end if;

  -- One series a statement: a distributed database refuses the join of an update to a set of records.
  for moved in
    select g.series, max(g.count) as count
      from jsonb_to_recordset((records -> 'invoice') || (records -> 'proposal'))
             as g (row integer, series text, count bigint)
     where g.series is not null and not known ? g.row::text
     group by g.series
  loop
    update business_api.number_series s set last = greatest(s.last, moved.count)
     where s.organization_id = $1 and s.series = moved.series;
  end loop;
  return jsonb_build_object('known', known);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_api_key(organization_id text, new_key jsonb, key_limit integer)
 RETURNS TABLE(is_new boolean, key business_api.api_keys)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  scopes text[] := array(select jsonb_array_elements_text(new_key -> 'scopes'));
begin
  perform business_api.take_settings_turn($1);
  is_new := false;
  select k.* into key from business_api.api_keys k
   where k.organization_id = $1 and k.id = new_key ->> 'id';
  if not found then
    if business_api.count_api_keys_in_force($1, clock_timestamp()) >= key_limit then
      return;
    end if;
    is_new := true;
    insert into business_api.api_keys as k
      (organization_id, id, digest, name, scopes, prefix, last_four, per_second, burst, created_at, expires_at)
    values (
      $1, new_key ->> 'id', new_key ->> 'digest', new_key ->> 'name', scopes, new_key ->> 'prefix', new_key ->> 'lastFour',
      (new_key #>> '{rateLimit,perSecond}')::double precision, (new_key #>> '{rateLimit,burst}')::integer,
      (new_key ->> 'createdAt')::timestamptz, (new_key ->> 'expiresAt')::timestamptz
    )
    returning k.* into key;
  end if;
  return next;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_audit_entry(organization_id text, id text, actor text, action text, subject_id text, details jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
  values ($1, $2, clock_timestamp(), $3, $4, $5, $6)
  on conflict (organization_id, id) do nothing
  returning 1 into inserted;
  return inserted;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_business(organization_id text, id text, name text, category text, city text, email text, phone text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  inserted text;
begin
  insert into business_api.businesses
    (organization_id, id, name, category, city, email, phone, copied)
  values ($1, $2, $3, $4, $5, $6, $7, business_api.business_representation($2, $3, $4, $5, $6, $7))
  on conflict (organization_id, id) do nothing
  returning copied into inserted;
  return inserted;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_cancelled_delivery(organization_id text, id text, event_id text, type text, endpoint_id text, created_at timestamp with time zone, attempts integer, is_backfill boolean)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
begin
  insert into business_api.finished_deliveries
    (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at, attempts, is_backfill)
  values ($1, $2, $3, $4, $5, 'cancelled', $6, now(), $7, $8);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_client(organization_id text, id text, business_id text, status text, total_revenue numeric, monthly_revenue numeric, converted_at timestamp with time zone, business_copy text)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.clients
    (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at, business_copy, copy_of)
  values ($1, $2, $3, $4, $5, $6, $7, $8, business_api.copy_key($1, $3))
  on conflict (organization_id, id) do nothing
  returning 1 into inserted;
  return inserted;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_converted_client(organization_id text, id text, business_id text, status text, total_revenue numeric, monthly_revenue numeric, converted_at timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  copy text;
begin
  perform 1 from business_api.businesses b
    where b.organization_id = $1 and b.id = $3
      for no key update skip locked;
  if found then
    update business_api.businesses b set copied = b.representation
     where b.organization_id = $1 and b.id = $3 and (b.copied = b.representation or b.copied is null)
    returning b.copied into copy;
  end if;
  insert into business_api.clients
    (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at, business_copy, copy_of)
  values ($1, $2, $3, $4, $5, $6, $7, copy, business_api.copy_key($1, $3));
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_endpoint(organization_id text, new_endpoint jsonb, endpoint_limit integer)
 RETURNS TABLE(is_new boolean, endpoint business_api.webhook_endpoints)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  types text[];
  header_names text[] := array(select jsonb_array_elements_text(new_endpoint -> 'headerNames'));
begin
  perform business_api.take_settings_turn($1);
  is_new := false;
  select e.* into endpoint from business_api.webhook_endpoints e
   where e.organization_id = $1 and e.id = new_endpoint ->> 'id';
  if not found then
    if (
      select count(*) from business_api.webhook_endpoints e where e.organization_id = $1 and e.state <> 'removed'
    ) >= endpoint_limit then
      return;
    end if;
    is_new := true;
    if new_endpoint ->> 'types' is not null then
      types := array(select jsonb_array_elements_text(new_endpoint -> 'types'));
    end if;
    insert into business_api.webhook_endpoints as e
      (
        organization_id, id, url, description, types, header_names, sealed_headers, standard_webhooks, state, sealed_secret,
        created_at
      )
    values (
      $1, new_endpoint ->> 'id', new_endpoint ->> 'url', new_endpoint ->> 'description', types, header_names,
      new_endpoint ->> 'sealedHeaders', coalesce((new_endpoint ->> 'standardWebhooks')::boolean, false), 'enabled',
      new_endpoint ->> 'sealedSecret',
      (new_endpoint ->> 'createdAt')::timestamptz
    )
    returning e.* into endpoint;
  end if;
  return next;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_events(organization_id text, events jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  written bigint;
  at_time timestamptz := clock_timestamp();
  digits text := business_api.delivery_digits(at_time);
  given record;
  max_bytes integer;
  first_end text;
  -- The endpoints, read once for both kinds of deliveries.
  endpoint_ids text[];
  endpoint_types text[];
  are_disabled boolean[];
  place integer;
  -- For each place in the call: true for a new event with an id of the host's own. Not an array of such places: a plan that is made
  -- once compares every place with each element.
  are_new boolean[];
begin
  -- One statement, because this function runs for every event, and each further statement is felt.
  select bool_or(strpos(e.body, E'"\\u0000') > 0) as has_placeholder, max(octet_length(e.body)) as bytes,
         bool_or(e."hasNewId" is not true) as has_own_ids
    into given
    from jsonb_to_recordset($2) as e (body text, "hasNewId" boolean);
  if given.has_placeholder then
    raise exception 'Cannot insert an event because a placeholder is left in its body';
  end if;
  if given.bytes > 65536 then
    -- The default applies if row level security hides the row.
    max_bytes := coalesce((select l.max_body_bytes from business_api.event_limits l where l.organization_id = ''), 262144);
    if given.bytes > max_bytes then
      raise exception 'Cannot publish % because its body has % bytes, and an event may have %',
        (
          select e.type from jsonb_to_recordset($2) as e (type text, body text) order by octet_length(e.body) desc limit 1
        ), given.bytes, max_bytes
        using errcode = 'invalid_parameter_value', constraint = 'event_limits_max_body_bytes',
              hint = 'Publish an id with which subscribers can fetch the rest.';
    end if;
  end if;
  if (
    digits >= current_setting('business_api.day_known_from', true) collate "C"
    and digits < current_setting('business_api.day_known_until', true) collate "C"
  ) is not true then
    perform business_api.ensure_day(at_time);
  end if;
  if given.has_own_ids then
    first_end := business_api.first_day_end();
    are_new := array_fill(false, array[jsonb_array_length($2)]);
    for place in
      insert into business_api.event_ids as i (organization_id, id, delivery_prefix)
      select $1, e.value ->> 'id', digits || upper(lpad(to_hex(e.number), 5, '0'))
        from jsonb_array_elements($2) with ordinality as e (value, number)
       where e.value -> 'hasNewId' is distinct from 'true'
      on conflict do nothing
      returning ('x' || lpad(right(i.delivery_prefix, 5), 8, '0'))::bit(32)::integer
    loop
      are_new[place] := true;
    end loop;
    if first_end is not null and true = any (are_new) then
      for place in
        select e.number from jsonb_array_elements($2) with ordinality as e (value, number)
         where are_new[e.number] and exists (
           select 1 from business_api.events known
            where known.organization_id = $1 and known.id = e.value ->> 'id' and known.delivery_prefix < first_end
         )
      loop
        are_new[place] := false;
      end loop;
    end if;
  end if;

  insert into business_api.events (organization_id, id, type, created_at, body, traceparent, delivery_prefix)
  select $1, e.id, e.type, e."createdAt", e.body, e.traceparent, digits || upper(lpad(to_hex(e.number), 5, '0'))
    from (
      select one.*, row_number() over () as number
        from jsonb_to_recordset($2)
               as one (
                 id text, type text, "createdAt" timestamptz, body text, traceparent text, "hasNewId" boolean
               )
    ) as e
   where e."hasNewId" or are_new[e.number];
  select array_agg(w.id), array_agg(w.types::text), array_agg(w.state = 'disabled') into endpoint_ids, endpoint_types, are_disabled
    from business_api.webhook_endpoints w
   where w.organization_id = $1 and w.state <> 'removed';
  if endpoint_ids is null then
    return 0;
  end if;
  insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at, created_at)
  select $1, digits || upper(lpad(to_hex(e.number), 5, '0')) || upper(lpad(to_hex(w.number), 5, '0')), e.id, e.type, w.id,
         at_time, at_time
    from (
      select one.*, row_number() over () as number
        from jsonb_to_recordset($2) as one (id text, type text, "hasNewId" boolean)
    ) as e
    join unnest(endpoint_ids, endpoint_types, are_disabled) with ordinality as w (id, types, is_disabled, number)
      on w.types is null or e.type = any (w.types::text[])
   where (e."hasNewId" or are_new[e.number]) and not w.is_disabled;
  get diagnostics written = row_count;
  if true = any (are_disabled) then
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at)
    select $1, digits || upper(lpad(to_hex(e.number), 5, '0')) || upper(lpad(to_hex(w.number), 5, '0')), e.id, e.type, w.id,
           'skipped', 'endpoint_disabled', at_time, at_time
      from (
        select one.*, row_number() over () as number
          from jsonb_to_recordset($2) as one (id text, type text, "hasNewId" boolean)
      ) as e
      join unnest(endpoint_ids, endpoint_types, are_disabled) with ordinality as w (id, types, is_disabled, number)
        on w.types is null or e.type = any (w.types::text[])
     where (e."hasNewId" or are_new[e.number]) and w.is_disabled;
  end if;
  return written;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_invoice(organization_id text, id text, number text, status text, currency text, minor_units integer, issue_date timestamp with time zone, due_date timestamp with time zone, total numeric, amount_paid numeric)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  inserted text;
begin
  insert into business_api.invoices
    (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
  on conflict (organization_id, id) do nothing
  returning number into inserted;
  return inserted;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_lead(organization_id text, id text, business_id text, stage text, lead_score numeric, score_band text, expected_value numeric, created_at timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.leads
    (organization_id, id, business_id, stage, lead_score, score_band, expected_value, created_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8)
  on conflict (organization_id, id) do nothing
  returning 1 into inserted;
  return inserted;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_payment(organization_id text, id text, invoice_id text, amount numeric, received_at timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
begin
  insert into business_api.payments (organization_id, id, invoice_id, amount, received_at) values ($1, $2, $3, $4, $5);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_project(organization_id text, id text, name text, status text, billing_type text, value numeric)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.projects
    (organization_id, id, name, status, billing_type, value)
  values ($1, $2, $3, $4, $5, $6)
  on conflict (organization_id, id) do nothing
  returning 1 into inserted;
  return inserted;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_proposal(organization_id text, id text, number text, title text, status text, version integer, total numeric, monthly_total numeric, currency text, minor_units integer)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  inserted text;
begin
  insert into business_api.proposals
    (organization_id, id, number, title, status, version, total, monthly_total, currency, minor_units)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
  on conflict (organization_id, id) do nothing
  returning number into inserted;
  return inserted;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.insert_reopened_deliveries(organization_id text, reopened jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.open_deliveries
    (organization_id, id, event_id, type, endpoint_id, due_at, created_at, attempts, attempts_before, is_backfill)
  select $1, r.id, r.event_id, r.type, r.endpoint_id, now(), r.created_at, r.attempts, r.attempts, r.is_backfill
    from jsonb_to_recordset($2)
           as r (
             id text, event_id text, type text, endpoint_id text, created_at timestamptz, attempts integer,
             is_backfill boolean
           );
  get diagnostics inserted = row_count;
  return inserted;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.invoice_representation(id text, number text, status text, currency text, minor_units integer, issue_date timestamp with time zone, due_date timestamp with time zone, total numeric, amount_paid numeric)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
begin
  return '{"id":' || to_json(id)::text
    || ',"number":' || to_json(number)::text
    || ',"status":' || to_json(status)::text
    || ',"currency":' || to_json(currency)::text
    || ',"issueDate":' || coalesce(
      to_json(to_char(issue_date at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, 'null'
    )
    || ',"dueDate":' || coalesce(
      to_json(to_char(due_date at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, 'null'
    )
    || ',"total":"' || round(total, minor_units)::text
    || '","amountPaid":"' || round(amount_paid, minor_units)::text
    || '","amountDue":"' || round(total - amount_paid, minor_units)::text
    || '"}';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.is_change_made(organization_id text, subject_id text, change_id text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  return exists (
    select 1 from business_api.audit_entries e
     where e.organization_id = $1 and e.subject_id = $2 and e.details ->> 'changeId' = $3
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.is_distributed()
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
AS $function$
declare
  is_placed boolean := false;
begin
  if to_regclass('pg_catalog.pg_dist_partition') is not null then
    execute 'select exists (select 1 from pg_catalog.pg_dist_partition where logicalrelid = ''business_api.open_deliveries''::regclass)'
      into is_placed;
  end if;
  return is_placed;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.is_outdated(representation text, copied text)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE COST 1e+06
 SET search_path TO ''
AS $function$
begin
  return coalesce(representation <> copied, false);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.is_recorded(organization_id text, entry_id text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  return exists (
    select 1 from business_api.audit_entries e where e.organization_id = $1 and e.id = $2
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.judge_endpoint(organization_id text, outcome jsonb, at_time timestamp with time zone, failure_limit integer, failing_ms double precision)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  has_success boolean := outcome ->> 'has_success';
  has_failure boolean := outcome ->> 'has_failure';
  endpoint record;
  failures_now integer := outcome ->> 'failures';
  failing_now timestamptz;
  is_new_streak boolean;
  is_disabled_now boolean;
  is_failing_now boolean;
begin
  select e.id, e.state, e.failures, e.failing_since, e.disabled_reason, e.noticed_attempt into endpoint
    from business_api.webhook_endpoints e
   where e.organization_id = $1 and e.id = outcome ->> 'endpoint_id' and (has_failure or e.failures > 0) and e.state <> 'removed'
     for no key update skip locked;
  if not found then
    return '[]';
  end if;
  is_new_streak := has_success or endpoint.failing_since is null;
  if not has_success then
    failures_now := failures_now + endpoint.failures;
  end if;
  failing_now := case
    when is_new_streak then at_time - (outcome ->> 'first_failure_ago_ms')::double precision * interval '1 millisecond'
    else endpoint.failing_since
  end;
  is_disabled_now := coalesce(
    endpoint.state in ('enabled', 'paused') and (
      (outcome ->> 'is_gone')::boolean
      or failures_now >= failure_limit and failing_now <= at_time - failing_ms * interval '1 millisecond'
    ), false
  );
  is_failing_now := not is_disabled_now and has_failure and endpoint.state in ('enabled', 'paused')
    and failures_now * 2 >= failure_limit and (is_new_streak or endpoint.noticed_attempt is null);
  if is_disabled_now then
    endpoint.state := 'disabled';
    endpoint.disabled_reason := case when (outcome ->> 'is_gone')::boolean then 'gone' else 'failing' end;
  end if;
  endpoint.noticed_attempt := case
    when is_disabled_now or is_failing_now then outcome ->> 'failed_attempt'
    when not is_new_streak then endpoint.noticed_attempt
  end;
  update business_api.webhook_endpoints e
     set failures = failures_now, failing_since = failing_now, state = endpoint.state,
         disabled_reason = endpoint.disabled_reason, noticed_attempt = endpoint.noticed_attempt
   where e.organization_id = $1 and e.id = endpoint.id;
  if not has_failure then
    return '[]';
  end if;
  return jsonb_build_array(jsonb_build_object(
    'organizationId', $1, 'endpointId', endpoint.id, 'state', endpoint.state, 'failures', failures_now,
    'failingSince', to_char(failing_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'disabledReason', endpoint.disabled_reason, 'isNewlyFailing', is_failing_now, 'isNewlyDisabled', is_disabled_now
  ));
end
$function$;

CREATE OR REPLACE FUNCTION business_api.kept_deliveries()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select coalesce(jsonb_agg(kept.delivery order by kept.begins), '[]')
    from (
      select (array_agg(d.kept_by order by d.begins))[1] as delivery, min(d.begins) as begins
        from business_api.event_days d
       where d.organization_id = '' and d.dropped_at is null and d.kept_by is not null
       group by d.kept_by ->> 'organizationId', d.kept_by ->> 'endpointId'
       order by 2
       limit 100
    ) as kept
$function$;

CREATE OR REPLACE FUNCTION business_api.last_attempts(organization_id text, delivery_ids text[])
 RETURNS TABLE(delivery_id text, status integer, error text)
 LANGUAGE plpgsql
 STABLE ROWS 64
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  first_id text;
  last_id text;
begin
  select min(wanted.id collate "C"), max(wanted.id collate "C") into first_id, last_id from unnest($2) as wanted (id);
  return query
    select wanted.id, last.status, last.error
      from unnest($2) as wanted (id)
      cross join lateral (
        select a.status, a.error from business_api.delivery_attempts a
         where a.organization_id = $1 and a.delivery_id = wanted.id and a.delivery_id >= first_id and a.delivery_id <= last_id
         order by a.number desc
         limit 1
      ) as last;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.late_day_ms(retention_ms double precision)
 RETURNS double precision
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  return (
    select greatest(0, coalesce(max(
             extract(epoch from now() - d.ends_at) * 1000 - greatest(retention_ms, 86400000)
             - business_api.day_grace_ms(retention_ms)
           ), 0))
      from business_api.event_days d
     where d.organization_id = '' and d.dropped_at is null and d.looked_at is not null and d.kept_by is null
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.lead_representation(id text, stage text, lead_score numeric, score_band text, expected_value numeric, created_at timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
begin
  return '{"id":' || to_json(id)::text
    || ',"stage":' || to_json(stage)::text
    || ',"leadScore":' || coalesce(trim_scale(lead_score)::text, 'null')
    || ',"scoreBand":' || coalesce(to_json(score_band)::text, 'null')
    || ',"expectedValue":' || coalesce(trim_scale(expected_value)::text, 'null')
    || ',"createdAt":' || coalesce(
      to_json(to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, 'null'
    )
    || '}';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.life_of(organization_id text, table_name text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  place oid := table_name::regclass;
begin
  if to_regclass('pg_catalog.pg_dist_partition') is not null then
    execute '
      select coalesce(
        case when exists (select 1 from pg_catalog.pg_dist_partition p where p.logicalrelid = $1::regclass) then
          to_regclass(pg_catalog.shard_name($1::regclass, pg_catalog.get_shard_id_for_distribution_column($1::regclass, $2)))::oid
        else $1 end, 0)' into place using place, $1;
  end if;
  return (
    select hashtextextended(
      case when place = 0 then gen_random_uuid()::text
      else concat_ws(' ', server.system_identifier, latest.timeline_id, own.oid, pg_relation_filenode(place))
      end, 0
    )::text
    from pg_control_system() as server, pg_control_checkpoint() as latest, pg_database as own
    where own.datname = current_database()
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.limit_organization(organization_id text, per_second double precision, burst integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  changed integer;
begin
  insert into business_api.organization_limits as present (organization_id, per_second, burst) values ($1, $2, $3)
  on conflict (organization_id) do update set per_second = excluded.per_second, burst = excluded.burst
  where (present.per_second, present.burst) <> (excluded.per_second, excluded.burst)
  returning 1 into changed;
  return changed;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.list_events(organization_id text, type text, since timestamp with time zone, until timestamp with time zone, before_id text, page_limit integer, inspected_limit integer)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
#variable_conflict use_column
declare
  -- Events before this place.
  end_at timestamptz := coalesce($4, 'infinity');
  end_id text := '';
  before_at timestamptz;
  inspected integer := 0;
  event record;
  next_id text;
  ids text[] := '{}';
  types text[] := '{}';
  times timestamptz[] := '{}';
  only_endpoint_ids text[] := '{}';
  delivery_prefixes text[] := '{}';
begin
  if $5 is not null then
    select e.created_at into before_at from business_api.find_events($1, array[$5]) as e;
    if not found then
      return '{"events":[],"next":null}';
    end if;
    if before_at < end_at then
      end_at := before_at;
      end_id := $5;
    end if;
  end if;

  for event in
    select e.id, e.type, e.created_at, e.only_endpoint_id, e.delivery_prefix from business_api.events e
     where e.organization_id = $1 and e.created_at >= coalesce($3, '-infinity')
       and (e.organization_id, e.created_at, e.id) < ($1, end_at, end_id)
     order by e.created_at desc, e.id desc
     limit $7
  loop
    inspected := inspected + 1;
    if $2 is null or event.type = $2 then
      if cardinality(ids) = $6 then
        next_id := ids[$6];
        exit;
      end if;
      ids := ids || event.id;
      types := types || event.type;
      times := times || event.created_at;
      only_endpoint_ids := only_endpoint_ids || event.only_endpoint_id;
      delivery_prefixes := delivery_prefixes || event.delivery_prefix;
    end if;
  end loop;
  if next_id is null and inspected = $7 then
    next_id := event.id;
  end if;

  return (
    with counted as materialized (
      select states.event_id, json_object_agg(states.state, states.deliveries) as deliveries
        from (
          select d.event_id, d.state, count(*) as deliveries
            from business_api.deliveries_of_events($1, ids, delivery_prefixes) as d
           group by d.event_id, d.state
        ) as states
       group by states.event_id
    )
    select json_build_object('events', coalesce(json_agg(json_build_object(
             'id', listed.id, 'type', listed.type,
             'createdAt', to_char(listed.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
             'onlyEndpointId', listed.only_endpoint_id, 'deliveries', coalesce(counted.deliveries, '{}')
           ) order by listed.place), '[]'), 'next', next_id)::text
      from unnest(ids, types, times, only_endpoint_ids) with ordinality
             as listed (id, type, created_at, only_endpoint_id, place)
      left join counted on counted.event_id = listed.id
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.list_events_since(organization_id text, since timestamp with time zone, row_limit integer, after_at timestamp with time zone, after_id text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
begin
  return (
    select coalesce(json_agg(json_build_object(
             -- Microseconds: a place that was cut to milliseconds would come before events that were read already.
             'at', to_char(event.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
             'id', event.id, 'type', event.type, 'onlyEndpointId', event.only_endpoint_id
           ) order by event.created_at, event.id), '[]')::text
      from (
        select e.id, e.type, e.created_at, e.only_endpoint_id from business_api.events e
         where e.organization_id = $1 and e.created_at >= $2
           and (e.organization_id, e.created_at, e.id) > ($1, coalesce($4, $2), coalesce($5, ''))
         order by e.created_at, e.id
         limit $3
      ) as event
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.list_newest_finished(organization_id text, endpoint_id text, states text[], type text, since timestamp with time zone, until timestamp with time zone, first_id text, end_id text, row_limit integer, is_recoverable boolean)
 RETURNS SETOF business_api.finished_deliveries
 LANGUAGE plpgsql
 STABLE ROWS 64
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
#variable_conflict use_column
declare
  is_whole boolean := $2 is null and $4 is null and cardinality($3) = 4;
  listed integer := 0;
  found_rows integer;
  day record;
begin
  for day in
    select g.begins, g.ends
      from (
        select greatest(d.begins, $7) as begins, least(d.ends, $8) as ends from business_api.event_days d
         where d.organization_id = '' and d.dropped_at is null and d.ends > $7 and d.begins < $8
        union all
        select $7, $8 where not exists (select 1 from business_api.event_days)
      ) as g
     order by g.begins desc
  loop
    if is_whole then
      return query
        select d.* from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= day.begins and d.id < day.ends
           and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
           and (not $10 or exists (
             select 1 from business_api.webhook_endpoints e
              where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
           ))
         order by d.id desc limit $9 - listed;
    elsif $4 is not null then
      return query
        with recursive walk as (
          select coalesce($2, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.type = $4 and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
          union all
          select (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.type = $4 and d.endpoint_id > walk.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from walk where walk.endpoint_id is not null and $2 is null
        )
        select found.* from walk, lateral (
          select d.* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
             and (d.type, d.endpoint_id, d.id) >= ($4, walk.endpoint_id, day.begins)
             and (d.type, d.endpoint_id, d.id) < ($4, walk.endpoint_id, day.ends)
             and d.state = any ($3) and d.id >= day.begins and d.id < day.ends
             and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
             and (not $10 or exists (
               select 1 from business_api.webhook_endpoints e
                where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
             ))
           order by d.type desc, d.endpoint_id desc, d.id desc limit $9 - listed
        ) as found where walk.endpoint_id is not null;
    else
      return query
        with recursive walk as (
          select wanted.state, coalesce($2, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = wanted.state
               and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled') and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
            from unnest($3) as wanted (state)
          union all
          select walk.state, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = walk.state
               and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.endpoint_id > walk.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from walk where walk.endpoint_id is not null and $2 is null
        )
        select found.* from walk, lateral (
          select d.* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
             and (d.state, d.endpoint_id, d.id) >= (walk.state, walk.endpoint_id, day.begins)
             and (d.state, d.endpoint_id, d.id) < (walk.state, walk.endpoint_id, day.ends)
             and d.id >= day.begins and d.id < day.ends
             and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
             and (not $10 or exists (
               select 1 from business_api.webhook_endpoints e
                where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
             ))
           order by d.state desc, d.endpoint_id desc, d.id desc limit $9 - listed
        ) as found where walk.endpoint_id is not null;
    end if;
    get diagnostics found_rows = row_count;
    listed := listed + found_rows;
    exit when listed >= $9;
  end loop;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.list_oldest_finished(organization_id text, endpoint_id text, states text[], type text, since timestamp with time zone, until timestamp with time zone, first_id text, end_id text, row_limit integer, is_recoverable boolean)
 RETURNS SETOF business_api.finished_deliveries
 LANGUAGE plpgsql
 STABLE ROWS 64
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
#variable_conflict use_column
declare
  is_whole boolean := $2 is null and $4 is null and cardinality($3) = 4;
  listed integer := 0;
  found_rows integer;
  day record;
begin
  for day in
    select g.begins, g.ends
      from (
        select greatest(d.begins, $7) as begins, least(d.ends, $8) as ends from business_api.event_days d
         where d.organization_id = '' and d.dropped_at is null and d.ends > $7 and d.begins < $8
        union all
        select $7, $8 where not exists (select 1 from business_api.event_days)
      ) as g
     order by g.begins asc
  loop
    if is_whole then
      return query
        select d.* from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= day.begins and d.id < day.ends
           and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
           and (not $10 or exists (
             select 1 from business_api.webhook_endpoints e
              where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
           ))
         order by d.id asc limit $9 - listed;
    elsif $4 is not null then
      return query
        with recursive walk as (
          select coalesce($2, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.type = $4 and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
          union all
          select (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.type = $4 and d.endpoint_id > walk.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from walk where walk.endpoint_id is not null and $2 is null
        )
        select found.* from walk, lateral (
          select d.* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
             and (d.type, d.endpoint_id, d.id) >= ($4, walk.endpoint_id, day.begins)
             and (d.type, d.endpoint_id, d.id) < ($4, walk.endpoint_id, day.ends)
             and d.state = any ($3) and d.id >= day.begins and d.id < day.ends
             and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
             and (not $10 or exists (
               select 1 from business_api.webhook_endpoints e
                where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
             ))
           order by d.type asc, d.endpoint_id asc, d.id asc limit $9 - listed
        ) as found where walk.endpoint_id is not null;
    else
      return query
        with recursive walk as (
          select wanted.state, coalesce($2, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = wanted.state
               and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled') and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )) as endpoint_id
            from unnest($3) as wanted (state)
          union all
          select walk.state, (
            select d.endpoint_id from business_api.finished_deliveries d
             where d.organization_id = $1 and d.state = walk.state
               and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
               and d.endpoint_id > walk.endpoint_id and d.id >= day.begins and d.id < day.ends
             order by d.endpoint_id limit 1
          )
          from walk where walk.endpoint_id is not null and $2 is null
        )
        select found.* from walk, lateral (
          select d.* from business_api.finished_deliveries d
           where d.organization_id = $1 and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
             and (d.state, d.endpoint_id, d.id) >= (walk.state, walk.endpoint_id, day.begins)
             and (d.state, d.endpoint_id, d.id) < (walk.state, walk.endpoint_id, day.ends)
             and d.id >= day.begins and d.id < day.ends
             and ($5 is null or d.created_at >= $5) and ($6 is null or d.created_at < $6)
             and (not $10 or exists (
               select 1 from business_api.webhook_endpoints e
                where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
             ))
           order by d.state asc, d.endpoint_id asc, d.id asc limit $9 - listed
        ) as found where walk.endpoint_id is not null;
    end if;
    get diagnostics found_rows = row_count;
    listed := listed + found_rows;
    exit when listed >= $9;
  end loop;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.list_open_deliveries(organization_id text, endpoint_id text, type text, has_pending boolean, has_in_flight boolean, since timestamp with time zone, until timestamp with time zone, first_id text, end_id text, row_limit integer)
 RETURNS SETOF business_api.open_deliveries
 LANGUAGE plpgsql
 STABLE ROWS 64
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION business_api.literals_of(key jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select string_agg(quote_literal(part.value), ', ' order by part.place)
    from jsonb_array_elements_text(key) with ordinality as part (value, place)
$function$;

CREATE OR REPLACE FUNCTION business_api.make_buckets(organization_id text, key_id text)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  name text;
  made integer := 0;
  inserted integer;
begin
  -- One statement each: a distributed database carries out a row of values at once, and plans a set of rows.
  foreach name in array array[$2, 'organization'] loop
    insert into business_api.rate_buckets (organization_id, bucket, full_at) values ($1, name, 0)
    on conflict do nothing
    returning 1 into inserted;
    made := made + coalesce(inserted, 0);
  end loop;
  return made;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.make_day(name text, begins_at timestamp with time zone, ends_at timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  -- The first day has no beginning.
  first_id text := case when $2 = '-infinity' then '' else business_api.day_bound($2) end;
  end_id text := business_api.day_bound($3);
  parent text;
begin
  foreach parent in array array['events', 'finished_deliveries', 'delivery_attempts'] loop
    continue when pg_partition_root(to_regclass('business_api.' || parent || '_' || $1)) = ('business_api.' || parent)::regclass;
    if to_regclass('business_api.' || parent || '_' || $1) is null then
      execute format(
        'create table business_api.%I (like business_api.%I including all)
           with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02)',
        parent || '_' || $1, parent
      );
    end if;
    -- Without a policy: rows are reached through the parent, with the parent's policies, also where the host grants new tables by
    -- default.
    execute format('alter table business_api.%I enable row level security', parent || '_' || $1);
    execute format(
      'alter table business_api.%I attach partition business_api.%I for values from (%s) to (%L)',
      parent, parent || '_' || $1, case when first_id = '' then 'minvalue' else quote_literal(first_id) end, end_id
    );
  end loop;
  begin
    insert into business_api.event_days as d (begins, ends, begins_at, ends_at, name)
    values (first_id, end_id, $2, $3, $1)
    on conflict on constraint event_days_pkey do update
      set ends = excluded.ends, ends_at = excluded.ends_at, looked_at = null, kept_by = null, dropped_at = null;
  exception
    -- Another transaction has written the row, and this one is repeatable read.
    when serialization_failure then null;
    -- Row level security that is forced on the owner hides the days.
    when insufficient_privilege then null;
  end;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.make_days()
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  -- A publisher may have read the clock a little earlier.
  here timestamptz := at_time - interval '1 hour';
  width integer;
  unlisted record;
  next_at timestamptz;
  day_begins_at timestamptz;
  day_ends_at timestamptz;
  day_name text;
begin
  -- A publisher from whom row level security hides the days asks each time, and must not wait for another one.
  if business_api.days_end(here) >= at_time + interval '144 hours' then
    return;
  end if;
  lock table only business_api.events, only business_api.finished_deliveries, only business_api.delivery_attempts
    in share update exclusive mode;
  for unlisted in select u.* from business_api.unlisted_days() as u loop
    perform business_api.make_day(unlisted.name, unlisted.begins_at, unlisted.ends_at);
  end loop;
  width := business_api.day_width(
    coalesce((select p.retention_ms from business_api.purge_progress p where p.organization_id = ''), 2592000000)
  );
  while here < at_time + interval '168 hours' loop
    select max(d.ends_at) filter (where d.begins <= business_api.day_bound(here) and d.ends > business_api.day_bound(here)),
           max(d.ends_at) filter (where d.ends_at <= here),
           min(d.begins_at) filter (where d.begins_at > here)
      into next_at, day_begins_at, day_ends_at
      from business_api.event_days d where d.organization_id = '' and d.dropped_at is null;
    if next_at is null then
      day_begins_at := greatest(day_begins_at, date_trunc('day', here, 'UTC'));
      day_ends_at := least(day_ends_at, day_begins_at + width * interval '24 hours');
      day_name := to_char(day_begins_at at time zone 'UTC', 'YYYYMMDD');
      perform business_api.make_day(day_name, day_begins_at, day_ends_at);
      next_at := day_ends_at;
    end if;
    here := next_at;
  end loop;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.make_days_ahead()
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '10ms'
AS $function$
begin
  -- "days" in ASCII.
  if pg_try_advisory_xact_lock(1684109683) then
    perform business_api.make_days();
  end if;
exception
  -- A vacuum by hand, a purge or a migration is under way.
  when lock_not_available or deadlock_detected then null;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.new_id(kind text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  alphabet constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  milliseconds bigint := floor(extract(epoch from clock_timestamp()) * 1000)::bigint;
  -- Each of the sixteen bytes gives five bits; the byte with the version of a UUID gives fewer.
  random_bytes bytea := uuid_send(gen_random_uuid());
  id text := kind || '_';
begin
  for place in 0 .. 9 loop
    id := id || substr(alphabet, ((milliseconds >> (45 - 5 * place)) & 31)::int + 1, 1);
  end loop;
  for place in 0 .. 15 loop
    id := id || substr(alphabet, (get_byte(random_bytes, place) & 31) + 1, 1);
  end loop;
  return id;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.next_number(organization_id text, series text, table_name text, record_id text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  counted bigint;
  known text;
  is_taken boolean;
begin
  insert into business_api.number_series as s (organization_id, series, last) values ($1, $2, 0)
  on conflict (organization_id, series) do update set last = s.last
  returning last into counted;
  -- Read after the lock, so that this statement sees the commit of an earlier try of the same creation.
  known := case
    when table_name = 'business_api.invoices'
    then (select i.number from business_api.invoices i where i.organization_id = $1 and i.id = $4)
    else (select p.number from business_api.proposals p where p.organization_id = $1 and p.id = $4)
  end;
  if known is not null then
    return known;
  end if;
  counted := counted + 1;
  is_taken := case
    when table_name = 'business_api.invoices' then exists (
      select 1 from business_api.invoices i
       where i.organization_id = $1 and i.number = business_api.format_number($2, counted)
    )
    else exists (
      select 1 from business_api.proposals p
       where p.organization_id = $1 and p.number = business_api.format_number($2, counted)
    )
  end;
  if is_taken then
    counted := business_api.first_free_number($1, $2, $3, counted);
  end if;
  update business_api.number_series s set last = counted where s.organization_id = $1 and s.series = $2;
  return business_api.format_number($2, counted);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.notice_keys(token text, within_ms double precision, key_limit integer)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  notices jsonb := '[]';
  expiring record;
begin
  for expiring in
    select k.organization_id, k.id, k.name, k.expires_at from business_api.api_keys k
     where k.expires_at > now()
       and k.expires_at <= now() + $2 * interval '1 millisecond'
       and k.revoked_at is null and k.successor_id is null
       and (k.expiry_noticed is distinct from k.expires_at or k.expiry_noticed_by = $1)
     order by k.expiry_noticed_by is distinct from $1, k.expires_at
     limit $3
       for no key update skip locked
  loop
    update business_api.api_keys k set expiry_noticed = expiring.expires_at, expiry_noticed_by = $1
     where k.organization_id = expiring.organization_id and k.id = expiring.id;
    notices := notices || jsonb_build_object(
      'kind', 'api_key_expiring', 'organizationId', expiring.organization_id, 'keyId', expiring.id, 'name', expiring.name,
      'expiresAt', to_char(expiring.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    );
  end loop;
  return notices::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.notice_secrets_of(organization_id text, token text, within_ms double precision, ids jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  notices jsonb := '[]';
  endpoint record;
begin
  for endpoint in
    select e.id, e.previous_secret_expires_at as expires_at from business_api.webhook_endpoints e
     where e.organization_id = $1 and e.id = any (array(select jsonb_array_elements_text($4)))
       and e.previous_secret_expires_at > now()
       and e.previous_secret_expires_at <= now() + $3 * interval '1 millisecond'
       and e.state <> 'removed'
       and (
         e.secret_expiry_noticed is distinct from e.previous_secret_expires_at or e.secret_expiry_noticed_by = $2
       )
       for no key update skip locked
  loop
    update business_api.webhook_endpoints e
       set secret_expiry_noticed = endpoint.expires_at, secret_expiry_noticed_by = $2
     where e.organization_id = $1 and e.id = endpoint.id;
    notices := notices || jsonb_build_object(
      'kind', 'secret_expiring', 'organizationId', $1, 'endpointId', endpoint.id,
      'expiresAt', to_char(endpoint.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    );
  end loop;
  return notices::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.pick_deliveries(organization_id text, endpoint_id text, is_backfill boolean, is_rest boolean, budget integer, OUT ids text[], OUT events text[], OUT places tid[])
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  endpoint_state text;
begin
  ids := '{}';
  select e.state into endpoint_state from business_api.webhook_endpoints e where e.organization_id = $1 and e.id = $2;
  if endpoint_state = 'paused' then
    return;
  elsif endpoint_state is distinct from 'enabled' then
    perform business_api.skip_pending($1, $2);
    return;
  end if;
  if $5 <= 0 then
    return;
  elsif not $3 then
    select coalesce(array_agg(f.id), '{}'), array_agg(f.event_id), array_agg(f.place) into ids, events, places
      from (
        select d.id, d.event_id, d.ctid as place from business_api.open_deliveries d
         where d.claim_token is null and not d.is_backing_off and not d.is_backfill
           and d.organization_id = $1 and d.endpoint_id = $2
         order by d.is_retry, d.id limit $5 for update skip locked
      ) as f;
  elsif $4 or not exists (
    select 1 from business_api.webhook_endpoints e
     where e.organization_id = $1 and e.state = 'enabled' and exists (
       select 1 from business_api.open_deliveries d
        where d.claim_token is null and not d.is_backing_off and not d.is_backfill
          and d.organization_id = $1 and d.endpoint_id = e.id
     )
  ) then
    select coalesce(array_agg(f.id), '{}'), array_agg(f.event_id), array_agg(f.place) into ids, events, places
      from (
        select d.id, d.event_id, d.ctid as place from business_api.open_deliveries d
         where d.claim_token is null and not d.is_backing_off and d.is_backfill
           and d.organization_id = $1 and d.endpoint_id = $2
         order by d.is_retry, d.id limit $5 for update skip locked
      ) as f;
  end if;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.project_representation(id text, name text, status text, billing_type text, value numeric)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
begin
  return '{"id":' || to_json(id)::text
    || ',"name":' || to_json(name)::text
    || ',"status":' || to_json(status)::text
    || ',"billingType":' || to_json(billing_type)::text
    || ',"value":' || trim_scale(value)::text
    || '}';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.promote_due_retries(at_time timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  due record;
begin
  for due in
    select d.organization_id, d.id from business_api.open_deliveries d
     where d.is_backing_off and d.due_at <= $1
     order by d.due_at
     limit 500
       for update skip locked
  loop
    update business_api.open_deliveries d set is_backing_off = false
     where d.organization_id = due.organization_id and d.id = due.id;
  end loop;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.promote_retries_of(organization_id text, at_time timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  due_ids text[];
begin
  select array_agg(f.id) into due_ids
    from (
      select d.id from business_api.open_deliveries d
       where d.organization_id = $1 and d.is_backing_off and d.due_at <= $2
       order by d.due_at
       limit 500
         for update skip locked
    ) as f;
  if due_ids is not null then
    update business_api.open_deliveries d set is_backing_off = false where d.organization_id = $1 and d.id = any (due_ids);
  end if;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.proposal_representation(id text, number text, title text, status text, version integer, total numeric, monthly_total numeric, currency text)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
begin
  return '{"id":' || to_json(id)::text
    || ',"number":' || to_json(number)::text
    || ',"title":' || to_json(title)::text
    || ',"status":' || to_json(status)::text
    || ',"version":' || version::text
    || ',"total":' || trim_scale(total)::text
    || ',"monthlyTotal":' || trim_scale(monthly_total)::text
    || ',"currency":' || to_json(currency)::text
    || '}';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.publish_event(organization_id text, type text, data jsonb, id text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  return business_api.publish_event(organization_id, type, data, id, null);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.publish_event(organization_id text, type text, data jsonb, id text, traceparent text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  event_id text := coalesce(id, business_api.new_id('evt'));
  created_at text := to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
begin
  if organization_id is null or char_length(organization_id) not between 1 and 64 then
    raise exception 'Cannot publish an event because its organization id is not 1 to 64 characters'
      using errcode = 'invalid_parameter_value';
  end if;
  if type is null or type <> all (business_api.event_types()) then
    raise exception 'Cannot publish an event because % is not a type of event', coalesce(type, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  if data is null or jsonb_typeof(data) <> 'object' then
    raise exception 'Cannot publish % because its data is not a JSON object', type using errcode = 'invalid_parameter_value';
  end if;
  if event_id !~ '^[!-~]{1,64}$' then
    raise exception 'Cannot publish % because its id is not 1 to 64 visible ASCII characters', type
      using errcode = 'invalid_parameter_value';
  end if;
  perform business_api.insert_events(organization_id, jsonb_build_array(jsonb_build_object(
    'id', event_id,
    'hasNewId', id is null,
    'type', type,
    'createdAt', created_at,
    'traceparent', case
      when traceparent ~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' then traceparent
    end,
    'body', format(
      '{"id":%s,"type":%s,"createdAt":%s,"data":%s}',
      to_json(event_id), to_json(type), to_json(created_at), data
    )
  )));
  return event_id;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_days(retention_ms double precision, part_limit integer)
 RETURNS jsonb
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET row_security TO 'off'
 SET lock_timeout TO '50ms'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  old_before timestamptz;
  day business_api.event_days;
  look_at timestamptz;
  is_locked boolean;
  holder jsonb;
  tables text;
  events bigint;
  deleted integer;
begin
  if business_api.days_end(at_time) < at_time + interval '144 hours' then
    begin
      perform business_api.make_days();
    exception
      -- A vacuum by hand is under way. There are days for almost a week.
      when lock_not_available or deadlock_detected then null;
    end;
  end if;

  -- A day that is kept is looked at again after ten minutes, and after a clock that was ahead. A day stays for a day at least, so
  -- that no publisher is still at work on it.
  old_before := at_time - greatest(retention_ms, 86400000) * interval '1 millisecond';
  for day in
    select d.* from business_api.event_days d
     where d.organization_id = '' and d.dropped_at is null and d.ends_at <= old_before
       and coalesce(d.looked_at not between at_time - interval '10 minutes' and at_time, true)
     order by d.looked_at nulls first, d.begins
  loop
    look_at := at_time;
    is_locked := false;
    holder := business_api.find_open_delivery(day.begins, day.ends);
    if holder is null then
      begin
        if day.ends_at <= old_before - interval '6 hours' then
          perform set_config('lock_timeout', '500ms', true);
        else
          perform set_config('lock_timeout', '50ms', true);
          look_at := at_time - interval '9 minutes';
        end if;
        tables := business_api.tables_of_day(day.name);
        if tables is not null then
          execute format('lock table %s in share mode', tables);
        end if;
        if current_setting('transaction_isolation') = 'read committed' then
          holder := business_api.find_open_delivery(day.begins, day.ends);
        elsif pg_relation_size(to_regclass(format('business_api.%I', 'events_' || day.name))) > 0 then
          holder := '{}';
        end if;
        if holder is null then
          lock table only business_api.events, only business_api.finished_deliveries, only business_api.delivery_attempts
            in access exclusive mode;
          select greatest(c.reltuples, 0) into events from pg_catalog.pg_class c
           where c.oid = to_regclass(format('business_api.%I', 'events_' || day.name));
          if tables is not null then
            execute 'drop table ' || tables;
          end if;
          update business_api.event_days d set dropped_at = at_time, kept_by = null
           where d.organization_id = '' and d.begins = day.begins;
          return jsonb_build_object('days', 1, 'events', coalesce(events, 0), 'kept', business_api.kept_deliveries());
        end if;
        -- Gives up the locks.
        raise exception 'the day is kept';
      exception
        when lock_not_available or deadlock_detected then is_locked := true;
        when raise_exception then
          -- A trigger of the host's may raise this error too.
          if holder is null then
            raise;
          end if;
          look_at := at_time;
      end;
    end if;
    -- A look that ended without an answer says nothing about the endpoint for which the day was kept until now.
    update business_api.event_days d
       set looked_at = look_at, kept_by = case when holder = '{}' then d.kept_by else holder end
     where d.organization_id = '' and d.begins = day.begins;
    if is_locked then
      -- Another day would wait for the same transaction. It is tried first the next time.
      update business_api.event_days d set looked_at = look_at - interval '1 second'
       where d.organization_id = '' and d.dropped_at is null and d.ends_at <= old_before and d.kept_by is null
         and d.begins <> day.begins;
    end if;
    exit when is_locked or clock_timestamp() > at_time + interval '200 milliseconds';
  end loop;

  select d.* into day from business_api.event_days d
   where d.organization_id = '' and d.dropped_at is not null
   order by d.begins
   limit 1;
  if found then
    delete from business_api.event_ids i
     using (
       select g.organization_id, g.id from business_api.event_ids g
        where g.delivery_prefix >= day.begins and g.delivery_prefix < day.ends
        order by g.delivery_prefix
        limit part_limit
     ) as gone
     where i.organization_id = gone.organization_id and i.id = gone.id;
    get diagnostics deleted = row_count;
    if deleted < part_limit then
      delete from business_api.event_days d where d.organization_id = '' and d.begins = day.begins;
    end if;
  end if;
  return jsonb_build_object(
    'days', 0, 'events', 0, 'kept', business_api.kept_deliveries(),
    'isDone', not exists (
      select 1 from business_api.event_days d where d.organization_id = '' and d.dropped_at is not null
    )
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_days_on_nodes(retention_ms double precision, part_limit integer)
 RETURNS jsonb
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET row_security TO 'off'
 SET lock_timeout TO '50ms'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  day business_api.event_days;
  holder jsonb;
  tables text;
  last_prefix text;
begin
  if business_api.days_end(at_time) < at_time + interval '144 hours' then
    begin
      perform business_api.make_days();
    exception
      when lock_not_available or deadlock_detected then null;
    end;
  end if;

  select d.* into day from business_api.event_days d
   where d.organization_id = '' and d.dropped_at is null
     and d.ends_at <= at_time - greatest(retention_ms, 86400000) * interval '1 millisecond'
     and coalesce(d.looked_at not between at_time - interval '10 minutes' and at_time, true)
   order by d.begins
   limit 1;
  if found then
    holder := business_api.find_open_delivery_on_nodes(day.begins, day.ends);
    if holder is null then
      begin
        tables := business_api.tables_of_day(day.name);
        if tables is not null then
          execute format('lock table %s in share mode', tables);
        end if;
        holder := business_api.find_open_delivery_on_nodes(day.begins, day.ends);
        if holder is null then
          if tables is not null then
            execute 'drop table ' || tables;
          end if;
          update business_api.event_days d set dropped_at = at_time, kept_by = null
           where d.organization_id = '' and d.begins = day.begins;
          return jsonb_build_object('days', 1, 'kept', business_api.kept_deliveries());
        end if;
        -- Gives up the locks.
        raise exception 'the day is kept';
      exception
        when lock_not_available or deadlock_detected then
          at_time := at_time - interval '9 minutes';
        when raise_exception then
          -- A trigger of the host's may raise this error too.
          if holder is null then
            raise;
          end if;
      end;
    end if;
    update business_api.event_days d
       set looked_at = at_time, kept_by = case when holder = '{}' then d.kept_by else holder end
     where d.organization_id = '' and d.begins = day.begins;
  end if;

  select d.* into day from business_api.event_days d
   where d.organization_id = '' and d.dropped_at is not null
   order by d.begins
   limit 1;
  if found then
    select i.delivery_prefix into last_prefix from business_api.event_ids i
     where i.delivery_prefix >= day.begins and i.delivery_prefix < day.ends
     order by i.delivery_prefix
     offset part_limit limit 1;
    delete from business_api.event_ids i
     where i.delivery_prefix >= day.begins and i.delivery_prefix < coalesce(last_prefix, day.ends);
    if last_prefix is null then
      delete from business_api.event_days d where d.organization_id = '' and d.begins = day.begins;
    end if;
  end if;
  return jsonb_build_object('days', 0, 'kept', business_api.kept_deliveries());
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_endpoints_on_nodes(place jsonb, endpoint_limit integer)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  begun_at timestamptz := clock_timestamp();
  removed record;
  inspections integer := 0;
  next_place jsonb;
begin
  for removed in
    select e.organization_id, e.id from business_api.webhook_endpoints e
     where e.state = 'removed'
       and (e.organization_id, e.id) > (coalesce(place ->> 'organizationId', ''), coalesce(place ->> 'id', ''))
     order by e.organization_id, e.id
     limit endpoint_limit
  loop
    inspections := inspections + 1;
    next_place := jsonb_build_object('organizationId', removed.organization_id, 'id', removed.id);
    if not exists (
      select 1 from business_api.open_deliveries d
       where d.organization_id = removed.organization_id and d.endpoint_id = removed.id
    ) and not exists (
      select 1 from business_api.finished_deliveries d
       where d.organization_id = removed.organization_id and d.endpoint_id = removed.id
         and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
    ) then
      delete from business_api.webhook_endpoints e
       where e.organization_id = removed.organization_id and e.id = removed.id and e.state = 'removed';
    end if;
    if clock_timestamp() > begun_at + interval '2 seconds' then
      return next_place;
    end if;
  end loop;
  return case when inspections = endpoint_limit then next_place end;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_events(old_before timestamp with time zone, place jsonb, event_limit integer, entry jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  after_time timestamptz := coalesce((place ->> 'createdAt')::timestamptz, '-infinity');
  after_organization text := coalesce(place ->> 'organizationId', '');
  after_id text := coalesce(place ->> 'id', '');
  -- More candidates than events to purge: a few events that stay must not make a part smaller, and many must not end a small
  -- part.
  candidate_limit integer := greatest(event_limit + 100, 1000);
  -- Deliveries are limited too, because an event may have many endpoints and a part must not take long.
  delivery_limit bigint := event_limit * 10;
  purged jsonb;
  next_place jsonb;
  candidates integer;
  inspections integer;
begin
  with candidate as materialized (
    select e.organization_id, e.id, e.created_at, e.delivery_prefix from business_api.events e
     where e.created_at < old_before
       and (e.created_at, e.organization_id, e.id) > (after_time, after_organization, after_id)
     order by e.created_at, e.organization_id, e.id
     limit candidate_limit
  ), counted as materialized (
    select c.*, finished.total, open.is_any as is_unsent,
           row_number() over in_order as number,
           count(*) filter (where not open.is_any) over in_order as events_so_far,
           sum(finished.total) filter (where not open.is_any) over in_order as deliveries_so_far
      from candidate c, lateral (
        select count(*) as total from business_api.finished_deliveries d
         where d.organization_id = c.organization_id
           and d.id >= c.delivery_prefix and d.id < c.delivery_prefix || '~' and d.event_id = c.id
      ) as finished, lateral (
        select exists (
          select 1 from business_api.open_deliveries d
           where d.organization_id = c.organization_id
             and d.id >= c.delivery_prefix and d.id < c.delivery_prefix || '~' and d.event_id = c.id
        ) as is_any
      ) as open
    window in_order as (order by c.created_at, c.organization_id, c.id rows unbounded preceding)
  ), inspected as materialized (
    select c.* from counted c
     where c.number = 1 or c.events_so_far <= event_limit and coalesce(c.deliveries_so_far, 0) <= delivery_limit
  ), old_event as materialized (
    select e.organization_id, e.id, e.delivery_prefix, i.total
      from inspected i
      join business_api.events e
        on e.organization_id = i.organization_id and e.id = i.id and e.delivery_prefix = i.delivery_prefix
     where not i.is_unsent
       for update of e skip locked
  ), finished_delivery as materialized (
    select d.organization_id, d.id, d.event_id, o.delivery_prefix, o.total
      from old_event o
      join business_api.finished_deliveries d
        on d.organization_id = o.organization_id
       and d.id >= o.delivery_prefix and d.id < o.delivery_prefix || '~' and d.event_id = o.id
       for update of d skip locked
  ), counted_again as materialized (
    -- Counted over the rows, and not joined to the events: a join of two lists would compare every pair.
    select f.*, count(*) over (partition by f.organization_id, f.event_id) = f.total as is_whole from finished_delivery f
  ), purgeable as materialized (
    select distinct f.organization_id, f.event_id as id, f.delivery_prefix from counted_again f where f.is_whole
    union all
    select o.organization_id, o.id, o.delivery_prefix from old_event o where o.total = 0
  ), purged_delivery as (
    delete from business_api.finished_deliveries d using counted_again f
     where f.is_whole and d.organization_id = f.organization_id and d.id = f.id
    returning d.organization_id, d.id
  ), purged_attempt as (
    delete from business_api.delivery_attempts a using purged_delivery p
     where a.organization_id = p.organization_id and a.delivery_id = p.id
  ), purged_id as (
    delete from business_api.event_ids i using purgeable p
     where i.organization_id = p.organization_id and i.id = p.id and i.delivery_prefix = p.delivery_prefix
  ), purged_event as (
    delete from business_api.events e using purgeable p
     where e.organization_id = p.organization_id and e.id = p.id and e.delivery_prefix = p.delivery_prefix
    returning e.organization_id
  )
  select (
           select coalesce(jsonb_object_agg(o.organization_id, o.events), '{}')
             from (select p.organization_id, count(*) as events from purged_event p group by p.organization_id) as o
         ),
         (
           select jsonb_build_object('createdAt', i.created_at, 'organizationId', i.organization_id, 'id', i.id)
             from inspected i order by i.number desc limit 1
         ),
         (select count(*) from candidate),
         (select count(*) from inspected)
    into purged, next_place, candidates, inspections;

  if entry is not null then
    insert into business_api.audit_entries as audit
      (organization_id, id, changed_at, actor, action, subject_id, details)
    select o.key, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', o.key,
           (entry -> 'details') || jsonb_build_object('events', o.value::bigint)
      from jsonb_each_text(purged) as o
    on conflict (organization_id, id) do update set
      details = audit.details || jsonb_build_object(
        'events', (audit.details ->> 'events')::bigint + (excluded.details ->> 'events')::bigint
      );
  end if;
  return jsonb_build_object(
    'events', (select coalesce(sum(o.value::bigint), 0) from jsonb_each_text(purged) as o),
    'place', coalesce(next_place, place),
    'isDone', candidates < candidate_limit and inspections = candidates
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_events_of(organization_id text, event_ids text[], prefixes text[])
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  event record;
  total bigint;
  delivery_ids text[];
  events integer := 0;
  deliveries integer := 0;
begin
  for event in select * from unnest($2, $3) as e (id, delivery_prefix) loop
    perform 1 from business_api.events e
      where e.organization_id = $1 and e.id = event.id and e.delivery_prefix = event.delivery_prefix
        for update skip locked;
    continue when not found;
    continue when exists (
      select 1 from business_api.open_deliveries d
       where d.organization_id = $1 and d.id >= event.delivery_prefix and d.id < event.delivery_prefix || '~'
         and d.event_id = event.id
    );
    select count(*) into total from business_api.finished_deliveries d
     where d.organization_id = $1 and d.id >= event.delivery_prefix and d.id < event.delivery_prefix || '~'
       and d.event_id = event.id;
    select coalesce(array_agg(f.id), '{}') into delivery_ids
      from (
        select d.id from business_api.finished_deliveries d
         where d.organization_id = $1 and d.id >= event.delivery_prefix and d.id < event.delivery_prefix || '~'
           and d.event_id = event.id
           for update skip locked
      ) as f;
    continue when cardinality(delivery_ids) < total;
    if total > 0 then
      delete from business_api.delivery_attempts a
       where a.organization_id = $1 and a.delivery_id = any (delivery_ids)
         and a.delivery_id >= event.delivery_prefix and a.delivery_id < event.delivery_prefix || '~';
      delete from business_api.finished_deliveries d
       where d.organization_id = $1 and d.id = any (delivery_ids)
         and d.id >= event.delivery_prefix and d.id < event.delivery_prefix || '~';
    end if;
    delete from business_api.event_ids i
     where i.organization_id = $1 and i.id = event.id and i.delivery_prefix = event.delivery_prefix;
    delete from business_api.events e
     where e.organization_id = $1 and e.id = event.id and e.delivery_prefix = event.delivery_prefix;
    events := events + 1;
    deliveries := deliveries + total::integer;
  end loop;
  return jsonb_build_object('events', events, 'deliveries', deliveries);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_events_on_nodes(old_before timestamp with time zone, place jsonb, event_limit integer, entry jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  begun_at timestamptz := clock_timestamp();
  here_time timestamptz := coalesce((place ->> 'createdAt')::timestamptz, '-infinity');
  here_organization text := coalesce(place ->> 'organizationId', '');
  here_id text := coalesce(place ->> 'id', '');
  is_done boolean := false;
  candidates jsonb;
  own record;
  purged jsonb;
  events_left integer := event_limit;
  deliveries_left bigint := event_limit * 10;
begin
  loop
    select coalesce(jsonb_agg(c order by c.created_at, c.organization_id, c.id), '[]') into candidates
      from (
        select e.organization_id, e.id, e.created_at, e.delivery_prefix from business_api.events e
         where e.created_at < old_before
           and (e.created_at, e.organization_id, e.id) > (here_time, here_organization, here_id)
         order by e.created_at, e.organization_id, e.id
         limit least(50, events_left)
      ) as c;
    is_done := jsonb_array_length(candidates) < least(50, events_left);
    for own in
      select c.organization_id, array_agg(c.id order by c.id) as ids, array_agg(c.delivery_prefix order by c.id) as prefixes
        from jsonb_to_recordset(candidates) as c (organization_id text, id text, delivery_prefix text)
       group by c.organization_id
    loop
      purged := business_api.purge_events_of(own.organization_id, own.ids, own.prefixes);
      events_left := events_left - (purged ->> 'events')::integer;
      deliveries_left := deliveries_left - (purged ->> 'deliveries')::integer;
      if entry is not null and purged -> 'events' <> '0' then
        insert into business_api.audit_entries as audit
          (organization_id, id, changed_at, actor, action, subject_id, details)
        values (
          own.organization_id, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', own.organization_id,
          (entry -> 'details') || jsonb_build_object('events', purged -> 'events')
        )
        on conflict (organization_id, id) do update set
          details = audit.details || (
            '{"events": ' || ((audit.details ->> 'events')::bigint + (excluded.details ->> 'events')::bigint)::text || '}'
          )::jsonb;
      end if;
    end loop;
    if candidates <> '[]' then
      here_time := (candidates -> -1 ->> 'created_at')::timestamptz;
      here_organization := candidates -> -1 ->> 'organization_id';
      here_id := candidates -> -1 ->> 'id';
    end if;
    exit when is_done or events_left <= 0 or deliveries_left <= 0 or clock_timestamp() > begun_at + interval '2 seconds';
  end loop;
  if not is_done then
    is_done := not exists (
      select 1 from business_api.events e
       where e.created_at < old_before
         and (e.created_at, e.organization_id, e.id) > (here_time, here_organization, here_id)
    );
  end if;
  return jsonb_build_object(
    'events', event_limit - events_left,
    'place', jsonb_build_object('createdAt', here_time, 'organizationId', here_organization, 'id', here_id),
    'isDone', is_done
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_idempotency_keys(expired_from timestamp with time zone, key_limit integer, OUT purged integer, OUT latest timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_keys_on_nodes(expired_from timestamp with time zone, key_limit integer, OUT purged integer, OUT latest timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  at_time timestamptz := now();
  own record;
  gone integer;
begin
  purged := 0;
  latest := expired_from;
  for own in
    select f.organization_id, array_agg(f.operation) as operations, array_agg(f.key) as keys, max(f.expires_at) as latest_own
      from (
        select k.organization_id, k.operation, k.key, k.expires_at from business_api.idempotency_keys k
         where k.expires_at <= at_time and k.expires_at >= expired_from
         order by k.expires_at
         limit key_limit
      ) as f
     group by f.organization_id
  loop
    delete from business_api.idempotency_keys k
     using unnest(own.operations, own.keys) as expired (operation, key)
     where k.organization_id = own.organization_id and k.operation = expired.operation and k.key = expired.key
       and k.expires_at <= at_time;
    get diagnostics gone = row_count;
    purged := purged + gone;
    latest := greatest(latest, own.latest_own);
  end loop;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_lag(retention_ms double precision, walk jsonb)
 RETURNS double precision
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  place jsonb := walk -> 'event';
  oldest timestamptz;
begin
  select e.created_at into oldest from business_api.events e
   where (e.created_at, e.organization_id, e.id) > (
           coalesce((place ->> 'createdAt')::timestamptz, '-infinity'),
           coalesce(place ->> 'organizationId', ''), coalesce(place ->> 'id', '')
         )
   order by e.created_at, e.organization_id, e.id
   limit 1;
  return greatest(
    business_api.late_day_ms(retention_ms),
    coalesce(extract(epoch from now() - oldest) * 1000 - retention_ms - business_api.day_grace_ms(retention_ms), 0)
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_part(retention_ms double precision, walk jsonb, part_limit integer, has_endpoints boolean, entry jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  is_distributed boolean := business_api.is_distributed();
  old_before timestamptz := now() - retention_ms * interval '1 millisecond';
  events jsonb := case
    when is_distributed then business_api.purge_events_on_nodes(old_before, walk -> 'event', part_limit, entry)
    else business_api.purge_events(old_before, walk -> 'event', part_limit, entry)
  end;
  expired_from timestamptz := coalesce((walk ->> 'expiry')::timestamptz, '-infinity');
  keys record;
  endpoint jsonb;
  is_done boolean := (events ->> 'isDone')::boolean;
begin
  if is_distributed then
    select k.purged, k.latest into keys from business_api.purge_keys_on_nodes(expired_from, part_limit) as k;
  else
    select k.purged, k.latest into keys from business_api.purge_idempotency_keys(expired_from, part_limit) as k;
  end if;
  if is_done and has_endpoints then
    endpoint := case
      when is_distributed then business_api.purge_endpoints_on_nodes(walk -> 'endpoint', greatest(part_limit, 1000))
      else business_api.purge_removed_endpoints(walk -> 'endpoint', greatest(part_limit, 1000))
    end;
  end if;
  return jsonb_build_object(
    'events', events -> 'events',
    'idempotencyKeys', keys.purged,
    'walk', jsonb_build_object('event', events -> 'place', 'expiry', keys.latest, 'endpoint', endpoint),
    'isDone', is_done and keys.purged < part_limit and endpoint is null
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.purge_removed_endpoints(place jsonb, endpoint_limit integer)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  inspections integer;
  next_place jsonb;
begin
  with removed as materialized (
    select e.organization_id, e.id from business_api.webhook_endpoints e
     where e.state = 'removed'
       and (e.organization_id, e.id) > (coalesce(place ->> 'organizationId', ''), coalesce(place ->> 'id', ''))
     order by e.organization_id, e.id
     limit endpoint_limit
  ), in_flight as materialized (
    select distinct d.organization_id, d.endpoint_id from business_api.open_deliveries d where d.lease_until is not null
  ), purgeable as materialized (
    -- Before the join with the rows to delete, which was planned as a loop around these searches.
    select r.organization_id, r.id from removed r
     where not exists (
         select 1
           from unnest(array['delivered', 'dead_lettered', 'skipped', 'cancelled']) as final (state)
           cross join lateral (
             select 1 from business_api.finished_deliveries d
              where d.organization_id = r.organization_id and d.endpoint_id = r.id
                and d.state = final.state and d.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')
              limit 1
           ) as finished
       )
       and not exists (
         select 1 from business_api.open_deliveries d
          where d.organization_id = r.organization_id and d.endpoint_id = r.id
            and d.claim_token is null and not d.is_backing_off and not d.is_backfill
       )
       and not exists (
         select 1 from business_api.open_deliveries d
          where d.organization_id = r.organization_id and d.endpoint_id = r.id
            and d.claim_token is null and not d.is_backing_off and d.is_backfill
       )
       and not exists (
         select 1 from business_api.open_deliveries d
          where d.organization_id = r.organization_id and d.endpoint_id = r.id
            and d.is_backing_off
       )
       and not exists (
         select 1 from in_flight f where f.organization_id = r.organization_id and f.endpoint_id = r.id
       )
  ), purged as (
    delete from business_api.webhook_endpoints e using purgeable p
     where e.organization_id = p.organization_id and e.id = p.id and e.state = 'removed'
  )
  select count(*), (array_agg(jsonb_build_object('organizationId', r.organization_id, 'id', r.id)
                    order by r.organization_id desc, r.id desc))[1]
    into inspections, next_place
    from removed r;
  return case when inspections = endpoint_limit then next_place end;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.read_claims(claims jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  organizations text[];
  ids text[];
begin
  select array_agg(d.organization_id order by claim.place), array_agg(d.id order by claim.place) into organizations, ids
    from jsonb_array_elements($1) with ordinality as claim (ref, place)
    cross join lateral (
      select o.organization_id, o.id from business_api.open_deliveries o
       where o.organization_id = claim.ref ->> 'organizationId' and o.id = claim.ref ->> 'deliveryId'
         and o.claim_token = claim.ref ->> 'token'
       limit 1
    ) as d;
  return coalesce(business_api.read_deliveries(organizations, ids)::text, '[]');
end
$function$;

CREATE OR REPLACE FUNCTION business_api.read_claims_of(organization_id text, claims jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  ids text[];
begin
  select coalesce(array_agg(found.id order by claim.place), '{}') into ids
    from jsonb_array_elements($2) with ordinality as claim (ref, place)
    cross join lateral (
      select d.id from business_api.open_deliveries d
       where d.organization_id = $1 and d.id = claim.ref ->> 'deliveryId' and d.claim_token = claim.ref ->> 'token'
       limit 1
    ) as found;
  return business_api.read_deliveries_of($1, ids)::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.read_deliveries(organizations text[], ids text[])
 RETURNS json
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  -- The range of the deliveries, so that the statement opens only the days of their events.
  first_prefix text;
  last_id text;
begin
  select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
    from unnest($2) as claim (id);
  return (
    select coalesce(json_agg(
             case
               when event.traceparent is null then delivery.content
               else ('{"traceparent":' || to_json(event.traceparent) || ',' || substr(delivery.content::text, 2))::json
             end
             order by claim.place
           ), '[]')
      from unnest(organizations, ids) with ordinality as claim (organization_id, id, place)
      -- One by one, each by its key: a plan from a time when the tables were empty would join everything of the period.
      cross join lateral (
        select * from business_api.open_deliveries o
         where o.organization_id = claim.organization_id and o.id = claim.id
         limit 1
      ) as d
      cross join lateral (
        select e.type, e.body, e.traceparent from business_api.events e
         where e.organization_id = claim.organization_id and e.id = d.event_id
           and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
           and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
         order by e.delivery_prefix limit 1
      ) as event
      join business_api.webhook_endpoints endpoint
        on endpoint.organization_id = d.organization_id and endpoint.id = d.endpoint_id and endpoint.state <> 'removed'
     cross join lateral (
       select json_build_object(
                'organizationId', d.organization_id, 'id', d.id, 'endpointId', d.endpoint_id, 'eventId', d.event_id,
                'type', event.type, 'body', event.body, 'url', endpoint.url,
                'headerNames', endpoint.header_names, 'sealedHeaders', endpoint.sealed_headers,
                'standardWebhooks', endpoint.standard_webhooks,
                'sealedSecrets', case
                  when endpoint.previous_secret_expires_at > at_time
                  then json_build_array(endpoint.sealed_secret, endpoint.previous_sealed_secret)
                  else json_build_array(endpoint.sealed_secret)
                end,
                'attempt', d.attempts - d.attempts_before
              ) as content
     ) as delivery
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.read_deliveries_of(organization_id text, ids text[])
 RETURNS json
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  first_prefix text;
  last_id text;
begin
  if cardinality(ids) = 0 then
    return '[]';
  end if;
  select min(left(claim.id, 14) collate "C"), max(claim.id collate "C") into first_prefix, last_id
    from unnest($2) as claim (id);
  return (
    select coalesce(json_agg(
             case
               when event.traceparent is null then delivery.content
               else ('{"traceparent":' || to_json(event.traceparent) || ',' || substr(delivery.content::text, 2))::json
             end
             order by claim.place
           ), '[]')
      from unnest($2) with ordinality as claim (id, place)
      cross join lateral (
        select o.endpoint_id, o.event_id, o.attempts, o.attempts_before from business_api.open_deliveries o
         where o.organization_id = $1 and o.id = claim.id
         limit 1
      ) as d
      cross join lateral (
        select e.type, e.body, e.traceparent from business_api.events e
         where e.organization_id = $1 and e.id = d.event_id
           and e.delivery_prefix >= left(claim.id, 14) and e.delivery_prefix <= claim.id
           and e.delivery_prefix >= first_prefix and e.delivery_prefix <= last_id
         order by e.delivery_prefix limit 1
      ) as event
      cross join lateral (
        select w.url, w.header_names, w.sealed_headers, w.standard_webhooks, w.sealed_secret, w.previous_sealed_secret,
               w.previous_secret_expires_at
          from business_api.webhook_endpoints w
         where w.organization_id = $1 and w.id = d.endpoint_id and w.state <> 'removed'
         limit 1
      ) as endpoint
     cross join lateral (
       select json_build_object(
                'organizationId', $1, 'id', claim.id, 'endpointId', d.endpoint_id, 'eventId', d.event_id,
                'type', event.type, 'body', event.body, 'url', endpoint.url,
                'headerNames', endpoint.header_names, 'sealedHeaders', endpoint.sealed_headers,
                'standardWebhooks', endpoint.standard_webhooks,
                'sealedSecrets', case
                  when endpoint.previous_secret_expires_at > at_time
                  then json_build_array(endpoint.sealed_secret, endpoint.previous_sealed_secret)
                  else json_build_array(endpoint.sealed_secret)
                end,
                'attempt', d.attempts - d.attempts_before
              ) as content
     ) as delivery
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.recall_attempt_results(results jsonb, written text[], failure_limit integer)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  result record;
  delivery record;
  endpoint record;
  endpoints jsonb := '[]';
  dead_letters jsonb := '[]';
  lost jsonb := '[]';
begin
  for result in
    select * from jsonb_to_recordset(results) as r (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "durationMs" real, status integer, error text
    )
     where r.token || ' ' || r."deliveryId" <> all (written)
  loop
    if not exists (
      select 1 from business_api.delivery_attempts a
       where a.organization_id = result."organizationId" and a.delivery_id = result."deliveryId"
         and a.duration_ms = result."durationMs" and a.status is not distinct from result.status
         and a.error is not distinct from result.error
    ) then
      lost := lost || jsonb_build_object(
        'organizationId', result."organizationId", 'deliveryId', result."deliveryId", 'token', result.token
      );
    end if;
    select o.event_id, o.type, o.endpoint_id, 'open' as state, null as reason into delivery
      from business_api.open_deliveries o
     where o.organization_id = result."organizationId" and o.id = result."deliveryId";
    if not found then
      select f.event_id, f.type, f.endpoint_id, f.state, f.reason into delivery
        from business_api.finished_deliveries f
       where f.organization_id = result."organizationId" and f.id = result."deliveryId";
      continue when not found;
    end if;
    if delivery.state = 'dead_lettered' and result.outcome = 'dead_lettered' and delivery.reason = result.reason then
      dead_letters := dead_letters || jsonb_build_object(
        'organizationId', result."organizationId", 'endpointId', delivery.endpoint_id, 'deliveryId', result."deliveryId",
        'eventId', delivery.event_id, 'type', delivery.type, 'reason', delivery.reason
      );
    end if;
    select e.id, e.state, e.failures, e.failing_since, e.disabled_reason into endpoint
      from business_api.webhook_endpoints e
     where e.organization_id = result."organizationId" and e.id = delivery.endpoint_id and e.state <> 'removed'
       and e.noticed_attempt = result.token || ' ' || result."deliveryId";
    if found then
      endpoints := endpoints || jsonb_build_object(
        'organizationId', result."organizationId", 'endpointId', endpoint.id, 'state', endpoint.state,
        'failures', endpoint.failures,
        'failingSince', to_char(endpoint.failing_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'disabledReason', endpoint.disabled_reason,
        -- An administrator may have enabled or disabled the endpoint after the attempt.
        'isNewlyFailing', endpoint.state <> 'disabled' and endpoint.failures * 2 >= failure_limit,
        'isNewlyDisabled', endpoint.state = 'disabled' and endpoint.disabled_reason <> 'administrator'
      );
    end if;
  end loop;
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'deadLetters', dead_letters);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.reclaim_expired_leases(max_attempts integer)
 RETURNS json
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  expired record;
  dead_letters jsonb := '[]';
begin
  for expired in
    select d.organization_id, d.id from business_api.open_deliveries d
     where d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  loop
    dead_letters := dead_letters || business_api.reclaim_lease(expired.organization_id, expired.id, at_time, max_attempts);
  end loop;
  return dead_letters::json;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.reclaim_lease(organization_id text, id text, at_time timestamp with time zone, max_attempts integer)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  expired record;
  day_name text;
  is_whole boolean := true;
  broken text;
begin
  select d.* into expired from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
  -- By its key: see claim_deliveries.
  perform 1 from business_api.events e
    where e.organization_id = $1 and e.id = expired.event_id
      and e.delivery_prefix >= left($2, 14) and e.delivery_prefix <= $2
    order by e.delivery_prefix limit 1;
  if not found then
    select d.name into day_name from business_api.event_days d
     where d.organization_id = '' and d.begins <= $2 and d.ends > $2 and d.dropped_at is null;
    -- Without any day, row level security hides the days.
    if not found and exists (select 1 from business_api.event_days d where d.organization_id = '') then
      delete from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
      return '[]';
    end if;
    -- A table that was made again lacks the event for good: the delivery ends after its last attempt.
    is_whole := coalesce(
      pg_partition_root(to_regclass('business_api.events_' || day_name)) = 'business_api.events'::regclass, false
    );
  end if;
  if is_whole then
    begin
      insert into business_api.delivery_attempts
        (organization_id, delivery_id, number, started_at, duration_ms, error, body_excerpt)
      values (
        $1, $2, expired.attempts, expired.claimed_at, extract(epoch from expired.lease_until - expired.claimed_at) * 1000,
        'interrupted', ''
      )
      on conflict do nothing;
      if expired.attempts - expired.attempts_before < $4 then
        update business_api.open_deliveries d
           set due_at = $3, claim_token = null, claimed_at = null, lease_until = null
         where d.organization_id = $1 and d.id = $2;
        return '[]';
      end if;
      delete from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
      insert into business_api.finished_deliveries
        (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
      values (
        $1, $2, expired.event_id, expired.type, expired.endpoint_id, 'dead_lettered', 'interrupted', expired.created_at, $3,
        expired.attempts, expired.is_backfill
      );
      return jsonb_build_array(jsonb_build_object(
        'organizationId', $1, 'endpointId', expired.endpoint_id, 'deliveryId', $2, 'eventId', expired.event_id,
        'type', expired.type, 'reason', 'interrupted'
      ));
    exception
      when check_violation then
        -- A missing partition has no name.
        get stacked diagnostics broken = constraint_name;
        if broken <> '' then
          raise;
        end if;
    end;
  end if;
  -- The time of the claim goes along, so that the attempt is not logged as longer than the lease.
  update business_api.open_deliveries d
     set claimed_at = d.claimed_at + ($3 + interval '10 minutes' - d.lease_until), lease_until = $3 + interval '10 minutes'
   where d.organization_id = $1 and d.id = $2;
  return '[]';
end
$function$;

CREATE OR REPLACE FUNCTION business_api.reclaim_leases_of(organization_id text, max_attempts integer)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  expired_id text;
  dead_letters jsonb := '[]';
begin
  perform business_api.hold_shard($1);
  for expired_id in
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  loop
    dead_letters := dead_letters || business_api.reclaim_lease($1, expired_id, at_time, $2);
  end loop;
  return dead_letters::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.record_test(organization_id text, entry jsonb, test_limit integer, window_ms double precision)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  at_time timestamptz;
  tests bigint;
begin
  perform business_api.take_settings_turn($1);
  if business_api.is_recorded($1, entry ->> 'id') then
    return true;
  end if;
  -- The clock is read after the wait for the turn.
  at_time := clock_timestamp();
  select count(*) into tests from (
    select 1 from business_api.audit_entries e
     where e.organization_id = $1 and e.action = 'endpoint.test_sent'
       and e.changed_at > at_time - window_ms * interval '1 millisecond'
     limit test_limit
  ) as recent;
  if tests >= test_limit then
    return false;
  end if;
  insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
  values (
    $1, entry ->> 'id', at_time, entry ->> 'actor', entry ->> 'action', entry ->> 'subjectId', entry -> 'details'
  );
  return true;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.release_claim_of(organization_id text, token text, kept jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  claims jsonb;
begin
  select jsonb_agg(jsonb_build_object('organizationId', $1, 'deliveryId', d.id, 'token', $2)) into claims
    from business_api.open_deliveries d
   where d.organization_id = $1 and d.lease_until > clock_timestamp() and d.claim_token = $2 and not $3 ? d.id;
  return business_api.release_deliveries(coalesce(claims, '[]'));
end
$function$;

CREATE OR REPLACE FUNCTION business_api.release_claims_of(organization_id text, claims jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  return business_api.release_deliveries($2);
end
$function$;

CREATE OR REPLACE FUNCTION business_api.release_deliveries(claims jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  claim record;
  released bigint := 0;
begin
  for claim in
    select * from jsonb_to_recordset($1) as c ("organizationId" text, "deliveryId" text, token text)
  loop
    update business_api.open_deliveries d
       set attempts = d.attempts - 1, claim_token = null, claimed_at = null, lease_until = null
     where d.organization_id = claim."organizationId" and d.id = claim."deliveryId" and d.claim_token = claim.token;
    if found then
      released := released + 1;
    end if;
  end loop;
  return released;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.render_events(events jsonb, record json, more json DEFAULT '{}'::json)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select coalesce(
    jsonb_agg(
      jsonb_set(e.event, '{body}', to_jsonb(business_api.render_template(e.event ->> 'body', record, more)))
      order by e.position
    ),
    '[]'
  )
  from jsonb_array_elements(events) with ordinality as e (event, position)
$function$;

CREATE OR REPLACE FUNCTION business_api.render_template(template text, record json, more json DEFAULT '{}'::json)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
declare
  rendered text := template;
  value record;
begin
  for value in
    select f.key, f.value::text as text from json_each(more) f
    union all select '', record::text
    union all select f.key, f.value::text from json_each(record) f
  loop
    -- E'…' means the same under both values of standard_conforming_strings, which a host's transaction may have set.
    rendered := replace(rendered, E'"\\u0000' || value.key || '"', value.text);
  end loop;
  if strpos(rendered, E'"\\u0000') > 0 then
    raise exception 'Cannot render a template because a placeholder in it has no value';
  end if;
  return rendered;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.renew_copy(organization_id text, business_id text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  copy text;
begin
  perform 1 from business_api.businesses b where b.organization_id = $1 and b.id = $2 for update;
  update business_api.businesses b set copied = b.representation
   where b.organization_id = $1 and b.id = $2
  returning b.copied into copy;
  if copy is not null then
    perform business_api.copy_to_client($1, $2, copy);
  end if;
  return copy;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.reopen_deliveries(organization_id text, ids text[], endpoint_id text, event_id text, type text, states text[], since timestamp with time zone, until timestamp with time zone, delivery_limit integer, entry jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  locked text[];
  is_repeat boolean;
  reopened jsonb;
  taken text[];
begin
  -- A recovery at the same time waits here for the other, and then finds the deliveries gone.
  select coalesce(array_agg(f.id), '{}') into locked
    from (
      select d.id from business_api.finished_deliveries d
       where d.organization_id = $1 and d.id = any ($2)
         and ($3 is null or d.endpoint_id = $3) and ($4 is null or d.event_id = $4) and ($5 is null or d.type = $5)
         and ($6 is null or d.state = any ($6))
         and ($7 is null or d.created_at >= $7) and ($8 is null or d.created_at < $8)
         and exists (
           select 1 from business_api.webhook_endpoints e
            where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
         )
       order by d.id
       limit $9
         for update of d
    ) as f;
  -- After the wait, because an earlier try of this call may have ended meanwhile.
  is_repeat := business_api.is_recorded($1, entry ->> 'id');
  if is_repeat then
    locked := array_remove(locked, entry ->> 'subjectId');
  end if;
  with gone as (
    delete from business_api.finished_deliveries d
     where d.organization_id = $1 and d.id = any (locked)
    returning d.*
  )
  select coalesce(jsonb_agg(g), '[]') into reopened from gone g;
  if reopened <> '[]' then
    perform business_api.insert_reopened_deliveries($1, reopened);
    perform business_api.count_in_audit_entry(
      $1, entry ->> 'id', entry ->> 'actor', entry ->> 'action', entry ->> 'subjectId', entry -> 'details',
      jsonb_array_length(reopened)
    );
  end if;
  taken := array(select r.id from jsonb_to_recordset(reopened) as r (id text));
  if is_repeat and entry ->> 'subjectId' = any ($2) then
    taken := taken || (entry ->> 'subjectId');
  end if;
  return (select coalesce(json_agg(t.id order by t.id collate "C"), '[]') from unnest(taken) as t (id))::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.report_results(results jsonb, written text[], outcomes jsonb[], dead_letters jsonb, at_time timestamp with time zone, failure_limit integer, failing_ms double precision)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  outcome jsonb;
  endpoints jsonb := '[]';
  recalled jsonb;
  lost jsonb := '[]';
begin
  foreach outcome in array outcomes loop
    endpoints := endpoints
      || business_api.judge_endpoint(outcome ->> 'organization_id', outcome, at_time, failure_limit, failing_ms);
  end loop;
  if cardinality(written) < jsonb_array_length(results) then
    recalled := business_api.recall_attempt_results(results, written, failure_limit);
    endpoints := endpoints || (recalled -> 'endpoints');
    dead_letters := dead_letters || (recalled -> 'deadLetters');
    lost := recalled -> 'lost';
  end if;
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'deadLetters', dead_letters)::text;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.reserve_key(organization_id text, operation text, key text, fingerprint text, record_id text, reply text, window_ms double precision)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  reserved integer;
begin
  insert into business_api.idempotency_keys as entry
    (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
  values ($1, $2, $3, $4, $5, $6, now() + $7 * interval '1 millisecond')
  on conflict (organization_id, operation, key) do update set
    fingerprint = excluded.fingerprint, record_id = excluded.record_id,
    reply = case
      when excluded.expires_at - entry.expires_at >= $7 * interval '1 millisecond' then excluded.reply else entry.reply
    end,
    expires_at = case
      when excluded.expires_at - entry.expires_at >= $7 * interval '1 millisecond' then excluded.expires_at else entry.expires_at
    end
  where excluded.expires_at - entry.expires_at >= $7 * interval '1 millisecond' or entry.record_id = excluded.record_id
  returning 1 into reserved;
  return reserved;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.rotate_api_key(organization_id text, key_id text, successor jsonb, overlap_ms double precision, key_limit integer)
 RETURNS TABLE(outcome text, is_new boolean, previous business_api.api_keys, key business_api.api_keys)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  at_time timestamptz;
  overlap_end timestamptz;
begin
  select k.* into previous from business_api.api_keys k
   where k.organization_id = $1 and k.id = key_id
     for no key update;
  if not found then
    return;
  end if;
  perform business_api.take_settings_turn($1);

  is_new := false;
  select k.* into key from business_api.api_keys k
   where k.organization_id = $1 and k.id = successor ->> 'id';
  if found then
    outcome := case
      when previous.successor_id = key.id and key.digest = successor ->> 'digest' then 'rotated'
      else 'already_exists'
    end;
    return next;
    return;
  end if;

  -- The clock is read after the wait for the row.
  at_time := clock_timestamp();
  overlap_end := at_time + overlap_ms * interval '1 millisecond';
  if previous.successor_id is not null or previous.revoked_at <= at_time or previous.expires_at <= at_time then
    outcome := 'refused';
    return next;
    return;
  end if;
  if overlap_ms > 0 and business_api.count_api_keys_in_force($1, at_time) >= key_limit then
    outcome := 'limit_reached';
    return next;
    return;
  end if;

  outcome := 'rotated';
  is_new := true;
  insert into business_api.api_keys as k
    (organization_id, id, digest, name, scopes, prefix, last_four, per_second, burst, created_at, expires_at)
  values (
    $1, successor ->> 'id', successor ->> 'digest', previous.name, previous.scopes, successor ->> 'prefix',
    successor ->> 'lastFour', previous.per_second, previous.burst, (successor ->> 'createdAt')::timestamptz,
    case when successor ? 'expiresAt' then (successor ->> 'expiresAt')::timestamptz else previous.expires_at end
  )
  returning k.* into key;
  update business_api.api_keys k
     set successor_id = successor ->> 'id',
         revoked_at = case when overlap_ms > 0 then k.revoked_at else at_time end,
         -- The earlier expiry: `least` ignores null.
         expires_at = case
           when overlap_ms > 0 then least(k.expires_at, overlap_end)
           else k.expires_at
         end
   where k.organization_id = $1 and k.id = key_id
  returning k.* into previous;
  return next;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.skip_pending(organization_id text, endpoint_id text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  ended jsonb;
  pending text[] := array(
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.endpoint_id = $2
       and d.claim_token is null and not d.is_backing_off and not d.is_backfill
     limit 500
       for update skip locked
  );
  pending_backfills text[] := array(
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.endpoint_id = $2
       and d.claim_token is null and not d.is_backing_off and d.is_backfill
     limit 500
       for update skip locked
  );
begin
  with gone as (
    delete from business_api.open_deliveries d
     where d.organization_id = $1 and d.id = any (pending || pending_backfills)
    returning d.*
  )
  select coalesce(jsonb_agg(g), '[]') into ended from gone g;
  -- A statement of its own: a distributed database takes no insert beside a delete.
  insert into business_api.finished_deliveries
    (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
  select $1, e.id, e.event_id, e.type, e.endpoint_id, 'skipped', 'endpoint_disabled', e.created_at, clock_timestamp(), e.attempts,
         e.is_backfill
    from jsonb_to_recordset(ended) as e (
      id text, event_id text, type text, endpoint_id text, created_at timestamptz, attempts integer, is_backfill boolean
    );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.tables_of_day(name text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  return (
    select string_agg(t.oid::text, ', ' order by p.place)
      from unnest(array['events', 'finished_deliveries', 'delivery_attempts']) with ordinality as p (parent, place)
      cross join lateral to_regclass(format('business_api.%I', p.parent || '_' || $1)) as t (oid)
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.tables_of_node(of_organization text DEFAULT NULL::text)
 RETURNS TABLE(deliveries text, finished text, endpoints text)
 LANGUAGE plpgsql
 STABLE ROWS 8
 SET search_path TO ''
AS $function$
begin
  if not business_api.is_distributed() then
    return query
      select 'business_api.open_deliveries', 'business_api.finished_deliveries', 'business_api.webhook_endpoints';
    return;
  end if;
  return query execute '
    select pg_catalog.shard_name(d.logicalrelid, d.shardid), pg_catalog.shard_name(f.logicalrelid, f.shardid),
           pg_catalog.shard_name(e.logicalrelid, e.shardid)
      from pg_catalog.pg_dist_placement p
      join pg_catalog.pg_dist_local_group here on here.groupid = p.groupid
      join pg_catalog.pg_dist_shard d
        on d.shardid = p.shardid and d.logicalrelid = ''business_api.open_deliveries''::regclass
      join pg_catalog.pg_dist_shard f
        on f.shardminvalue = d.shardminvalue and f.logicalrelid = ''business_api.finished_deliveries''::regclass
      join pg_catalog.pg_dist_shard e
        on e.shardminvalue = d.shardminvalue and e.logicalrelid = ''business_api.webhook_endpoints''::regclass
     where $1 is null
        or d.shardid = pg_catalog.get_shard_id_for_distribution_column(''business_api.open_deliveries''::regclass, $1)'
    using of_organization;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.take_settings_turn(organization_id text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
begin
  insert into business_api.settings_turns as present (organization_id, turn) values ($1, 1)
  on conflict (organization_id) do update set turn = present.turn + 1;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.take_tokens(organization_id text, key_id text, key_full_in double precision, key_rate double precision, key_burst double precision, is_key_own boolean, organization_full_in double precision, organization_rate double precision, organization_burst double precision, is_organization_own boolean, wanted double precision, hold_seconds double precision, may_wait boolean, OUT tokens double precision, OUT at double precision, OUT void_at double precision, OUT key_full_after double precision, OUT organization_full_after double precision)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
AS $function$
declare
  -- Seconds that a bucket takes to become full: from empty, and with a last token. Ten microseconds forgive the errors of floating
  -- point.
  key_empty_in double precision := key_burst / key_rate;
  organization_empty_in double precision := organization_burst / organization_rate;
  key_last_in double precision := (key_burst - 1) / key_rate + 0.00001;
  organization_last_in double precision := (organization_burst - 1) / organization_rate + 0.00001;
  -- A bucket that takes longer is more than empty, because the limit was raised or the clock went back, and becomes empty once.
  -- Not a bucket under the limits of an API: another API on the store may have lower limits, and must not find its bucket
  -- refilled. A hundredth of a second is more than the errors of floating point.
  key_limit_in double precision := case when is_key_own then key_empty_in + 0.01 else 'infinity' end;
  organization_limit_in double precision := case when is_organization_own then organization_empty_in + 0.01 else 'infinity' end;
  key_bucket business_api.rate_buckets;
  organization_bucket business_api.rate_buckets;
  -- Tokens live as long as costs a bucket next to nothing, because a process or the network may stop for a while.
  live_seconds double precision := greatest(2 * hold_seconds, least(10, key_empty_in / 512, organization_empty_in / 512));
  -- Seconds from full that leave room for the tokens that are held.
  key_held_in double precision;
  organization_held_in double precision;
  becomes_empty boolean;
begin
  if (
    key_full_in <= key_last_in and organization_full_in <= organization_last_in
    or key_full_in > key_limit_in or organization_full_in > organization_limit_in
  ) is not true then
    return;
  end if;

  -- In the order of the names, so that no two requests can deadlock.
  if may_wait then
    select b.* into key_bucket from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = $2
       for no key update;
    select b.* into organization_bucket from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = 'organization'
       for no key update;
  else
    tokens := -1;
    select b.* into key_bucket from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = $2
       for no key update skip locked;
    if key_bucket.full_at is not null then
      select b.* into organization_bucket from business_api.rate_buckets b
       where b.organization_id = $1 and b.bucket = 'organization'
         for no key update skip locked;
    end if;
  end if;
  if key_bucket.full_at is null or organization_bucket.full_at is null then
    return;
  end if;

  at := date_part('epoch', clock_timestamp());
  becomes_empty := key_bucket.full_at - at > key_limit_in or organization_bucket.full_at - at > organization_limit_in;
  key_full_after := greatest(0, key_bucket.full_at - at);
  organization_full_after := greatest(0, organization_bucket.full_at - at);
  if is_key_own then
    key_full_after := least(key_full_after, key_empty_in);
  end if;
  if is_organization_own then
    organization_full_after := least(organization_full_after, organization_empty_in);
  end if;

  if key_full_after > key_last_in or organization_full_after > organization_last_in then
    tokens := 0;
  elsif wanted > 1 then
    key_held_in := live_seconds + business_api.held_tokens(
      key_bucket.held, key_bucket.held_until, key_bucket.held_before, key_bucket.held_before_until, at
    ) / key_rate;
    organization_held_in := live_seconds + business_api.held_tokens(
      organization_bucket.held, organization_bucket.held_until,
      organization_bucket.held_before, organization_bucket.held_before_until, at
    ) / organization_rate;
    tokens := greatest(1, least(wanted, floor(least(
      key_burst - key_full_after * key_rate, organization_burst - organization_full_after * organization_rate
    ) / 16)));
    if key_held_in > greatest(key_full_after, key_empty_in / 256)
      or organization_held_in > greatest(organization_full_after, organization_empty_in / 256)
    then
      tokens := 1;
    elsif tokens > 1 then
      key_full_after := greatest(key_full_after, key_held_in);
      organization_full_after := greatest(organization_full_after, organization_held_in);
    end if;
  else
    tokens := 1;
  end if;

  key_full_after := key_full_after + tokens / key_rate;
  organization_full_after := organization_full_after + tokens / organization_rate;
  if tokens > 1 then
    void_at := at + live_seconds;
    update business_api.rate_buckets b
       set full_at = at + case when b.bucket = 'organization' then organization_full_after else key_full_after end,
           held = tokens + case when at < b.held_before_until then b.held else 0 end,
           held_until = greatest(void_at, case when at < b.held_before_until then b.held_until else 0 end),
           held_before = case when at < b.held_before_until then b.held_before else b.held end,
           held_before_until = case when at < b.held_before_until then b.held_before_until else b.held_until end
     where b.organization_id = $1 and b.bucket = any (array[$2, 'organization']);
  elsif tokens > 0 or becomes_empty then
    update business_api.rate_buckets b set full_at = at + key_full_after
     where b.organization_id = $1 and b.bucket = $2;
    update business_api.rate_buckets b set full_at = at + organization_full_after
     where b.organization_id = $1 and b.bucket = 'organization';
  end if;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.unlisted_days()
 RETURNS TABLE(name text, begins_at timestamp with time zone, ends_at timestamp with time zone)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  attached record;
begin
  for attached in
    select distinct substr(c.relname::text, length(p.parent) + 2) as day_name, b.begins, b.ends
      from unnest(array['events', 'finished_deliveries', 'delivery_attempts']) as p (parent)
      join pg_inherits i on i.inhparent = to_regclass('business_api.' || p.parent)
      join pg_class c on c.oid = i.inhrelid
      cross join lateral pg_get_expr(c.relpartbound, c.oid) as e (bounds)
      cross join lateral (
        select case when e.bounds like '%(MINVALUE)%' then '' else substring(e.bounds from 'FROM [(]''(dlv_.{10})''') end as begins,
               substring(e.bounds from 'TO [(]''(dlv_.{10})''') as ends
      ) as b
     where starts_with(c.relname::text, p.parent || '_') and b.begins is not null and b.ends is not null
     order by b.begins
  loop
    continue when exists (
      select 1 from business_api.event_days d
       where d.organization_id = '' and d.begins = attached.begins and d.ends = attached.ends and d.dropped_at is null
    );
    name := attached.day_name;
    begins_at := case
      when attached.begins = '' then '-infinity' else business_api.id_time(rpad(attached.begins, 30, '0'))
    end;
    ends_at := business_api.id_time(rpad(attached.ends, 30, '0'));
    return next;
  end loop;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.walk_due_deliveries(is_backfill boolean, is_rest boolean, pick_limit integer, endpoint_limit integer, after_organization text, after_endpoint text, endpoint_budget integer, organization_budget integer, endpoint_budgets jsonb, organization_budgets jsonb, claimed_organizations text[], claimed_endpoints text[], OUT organizations text[], OUT ids text[], OUT endpoints text[], OUT events text[], OUT places tid[], OUT here_organization text, OUT here_endpoint text, OUT is_complete boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  next_organization text;
  next_endpoint text;
  found_deliveries record;
  endpoints_read integer := 0;
  has_wrapped boolean := after_organization is null;
begin
  organizations := '{}';
  ids := '{}';
  endpoints := '{}';
  events := '{}';
  places := '{}';
  here_organization := coalesce(after_organization, '');
  here_endpoint := coalesce(after_endpoint, '');
  is_complete := false;
  while cardinality(ids) < pick_limit and endpoints_read < endpoint_limit loop
    -- Each kind has an index of its own.
    if is_backfill then
      select d.organization_id, d.endpoint_id into next_organization, next_endpoint
        from business_api.open_deliveries d
       where d.claim_token is null and not d.is_backing_off and d.is_backfill
         and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
       order by d.organization_id, d.endpoint_id
       limit 1;
    else
      select d.organization_id, d.endpoint_id into next_organization, next_endpoint
        from business_api.open_deliveries d
       where d.claim_token is null and not d.is_backing_off and not d.is_backfill
         and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
       order by d.organization_id, d.endpoint_id
       limit 1;
    end if;
    if not found then
      is_complete := has_wrapped;
      exit when has_wrapped;
      has_wrapped := true;
      here_organization := '';
      here_endpoint := '';
      continue;
    end if;
    if has_wrapped and after_organization is not null
       and (next_organization, next_endpoint) > (after_organization, after_endpoint) then
      is_complete := true;
      exit;
    end if;
    here_organization := next_organization;
    here_endpoint := next_endpoint;
    endpoints_read := endpoints_read + 1;

    select * into found_deliveries from business_api.pick_deliveries(here_organization, here_endpoint, is_backfill, is_rest, least(
      pick_limit - cardinality(ids),
      coalesce((endpoint_budgets ->> here_endpoint)::integer, endpoint_budget)
        - coalesce(cardinality(array_positions(claimed_endpoints, here_endpoint)), 0),
      coalesce((organization_budgets ->> here_organization)::integer, organization_budget)
        - coalesce(cardinality(array_positions(claimed_organizations, here_organization)), 0)
        - coalesce(cardinality(array_positions(organizations, here_organization)), 0)
    ));
    if cardinality(found_deliveries.ids) > 0 then
      ids := ids || found_deliveries.ids;
      events := events || found_deliveries.events;
      places := places || found_deliveries.places;
      organizations := organizations || array_fill(here_organization, array[cardinality(found_deliveries.ids)]);
      endpoints := endpoints || array_fill(here_endpoint, array[cardinality(found_deliveries.ids)]);
    end if;
  end loop;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.write_attempt_results(results jsonb, failure_limit integer, failing_ms double precision)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  at_time timestamptz := clock_timestamp();
  ended record;
begin
  -- A result lost in a crash costs one more attempt.
  perform set_config('synchronous_commit', 'off', true);
  select * into ended
    from business_api.end_attempts(results, array(
      select open.place
        from jsonb_to_recordset(results) as r ("organizationId" text, "deliveryId" text, token text)
        left join lateral (
          select d.ctid as place from business_api.open_deliveries d
           where d.organization_id = r."organizationId" and d.id = r."deliveryId" and d.claim_token = r.token
           limit 1
        ) as open on true
    ), at_time);
  return business_api.report_results(
    results, ended.written,
    -- Most endpoints are healthy, and stay as they are.
    array(
      select o.value
        from jsonb_array_elements(ended.outcomes) as o
        cross join lateral (
          select 1 from business_api.webhook_endpoints e
           where e.organization_id = o.value ->> 'organization_id' and e.id = o.value ->> 'endpoint_id'
             and ((o.value ->> 'has_failure')::boolean or e.failures > 0)
           limit 1
        ) as changing
    ),
    ended.dead_letters, at_time, failure_limit, failing_ms
  );
end
$function$;

CREATE OR REPLACE FUNCTION business_api.write_results_of(organization_id text, results jsonb, failure_limit integer, failing_ms double precision)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  retried record;
  closed record;
  due_again jsonb;
  gone jsonb;
  -- The results whose claim was in force, each with the columns of the delivery.
  ended jsonb;
  outcomes jsonb[];
  dead_letters jsonb;
begin
  select array_agg(r."deliveryId") as ids, array_agg(r.token) as tokens, array_agg(r."delayMs" > 0) as are_backing_off,
         array_agg(at_time + (r."delayMs" - r."endedAgoMs") * interval '1 millisecond') as due_ats
    into retried
    from jsonb_to_recordset($2) as r (
      "deliveryId" text, token text, outcome text, "delayMs" double precision, "endedAgoMs" double precision
    )
   where r.outcome = 'retry';
  select array_agg(r."deliveryId") as ids, array_agg(r.token) as tokens into closed
    from jsonb_to_recordset($2) as r ("deliveryId" text, token text, outcome text)
   where r.outcome <> 'retry';

  if retried.ids is not null then
    with changed as (
      update business_api.open_deliveries d
         set due_at = r.due_at, is_backing_off = r.is_backing_off, claim_token = null, claimed_at = null, lease_until = null
        from unnest(retried.ids, retried.tokens, retried.due_ats, retried.are_backing_off) as r (id, token, due_at, is_backing_off)
       where d.organization_id = $1 and d.id = r.id and d.claim_token = r.token
      returning r.token || ' ' || d.id as claim, d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill
    )
    select jsonb_object_agg(c.claim, to_jsonb(c)) into due_again from changed c;
  end if;
  if closed.ids is not null then
    with removed as (
      delete from business_api.open_deliveries d
       using unnest(closed.ids, closed.tokens) as r (id, token)
       where d.organization_id = $1 and d.id = r.id and d.claim_token = r.token
      returning r.token || ' ' || d.id as claim, d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill
    )
    select jsonb_object_agg(r.claim, to_jsonb(r)) into gone from removed r;
  end if;
  due_again := coalesce(due_again, '{}') || coalesce(gone, '{}');
  select coalesce(jsonb_agg(r.value || (due_again -> (r.value ->> 'token' || ' ' || (r.value ->> 'deliveryId')))), '[]') into ended
    from jsonb_array_elements($2) as r
   where due_again ? (r.value ->> 'token' || ' ' || (r.value ->> 'deliveryId'));

  if gone is not null then
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
    select $1, c."deliveryId", c.event_id, c.type, c.endpoint_id, c.outcome, c.reason, c.created_at,
           at_time - c."endedAgoMs" * interval '1 millisecond', c.attempts, c.is_backfill
      from jsonb_to_recordset(ended) as c (
        "deliveryId" text, event_id text, type text, endpoint_id text, outcome text, reason text, created_at timestamptz,
        "endedAgoMs" double precision, attempts integer, is_backfill boolean
      )
     where c.outcome <> 'retry';
  end if;
  if ended <> '[]' then
    insert into business_api.delivery_attempts (
      organization_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, first_byte_ms,
      status, error, body_excerpt
    )
    select $1, e."deliveryId", e.attempts, at_time - e."startedAgoMs" * interval '1 millisecond',
           e."durationMs", e."dnsMs", e."connectMs", e."tlsMs", e."firstByteMs", e.status, e.error, e."bodyExcerpt"
      from jsonb_to_recordset(ended) as e (
        "deliveryId" text, attempts integer, "startedAgoMs" double precision, "durationMs" real, "dnsMs" real, "connectMs" real,
        "tlsMs" real, "firstByteMs" real, status integer, error text, "bodyExcerpt" text
      );
  end if;

  -- For an endpoint's health only the failures after the last success among these results count. An attempt that the process
  -- interrupted or never made proves nothing about the endpoint.
  outcomes := array(
    select jsonb_build_object(
             'organization_id', $1, 'endpoint_id', e.endpoint_id,
             'has_success', bool_or(e.outcome = 'delivered'), 'has_failure', bool_or(e.is_failure), 'is_gone', bool_or(e."isGone"),
             'failures', count(*) filter (where e.is_failure and e."endedAgoMs" < coalesce(e.success_ago_ms, 'infinity')),
             'first_failure_ago_ms',
               max(e."endedAgoMs") filter (where e.is_failure and e."endedAgoMs" < coalesce(e.success_ago_ms, 'infinity')),
             'failed_attempt', max(e.token || ' ' || e."deliveryId") filter (where e.is_failure)
           )
      from (
        select x.*, x.outcome <> 'delivered' and coalesce(x.error, '') not in ('interrupted', 'unreadable') as is_failure,
               min(x."endedAgoMs") filter (where x.outcome = 'delivered') over (partition by x.endpoint_id) as success_ago_ms
          from jsonb_to_recordset(ended) as x (
            endpoint_id text, "deliveryId" text, token text, outcome text, error text, "isGone" boolean,
            "endedAgoMs" double precision
          )
      ) as e
     group by e.endpoint_id
  );
  select coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', $1, 'endpointId', e.endpoint_id, 'deliveryId', e."deliveryId", 'eventId', e.event_id,
           'type', e.type, 'reason', e.reason
         )), '[]')
    into dead_letters
    from jsonb_to_recordset(ended) as e (
      endpoint_id text, "deliveryId" text, event_id text, type text, outcome text, reason text
    )
   where e.outcome = 'dead_lettered';
  return business_api.report_results(
    $2, array(select jsonb_object_keys(due_again)), outcomes, dead_letters, at_time, failure_limit, failing_ms
  );
end
$function$;
