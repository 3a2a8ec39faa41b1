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
  constraint api_keys_pkey PRIMARY KEY (organization_id, id),
  constraint api_keys_digest_key UNIQUE (digest),
  constraint api_keys_burst_check CHECK ((((per_second IS NULL) = (burst IS NULL)) AND (per_second > (0)::double precision) AND (burst > 0)))
);

create table business_api.businesses (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  category text,
  city text,
  email text,
  phone text,
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
  constraint clients_pkey PRIMARY KEY (organization_id, id),
  constraint clients_organization_id_business_id_key UNIQUE (organization_id, business_id),
  constraint clients_organization_id_business_id_fkey FOREIGN KEY (organization_id, business_id) REFERENCES business_api.businesses(organization_id, id),
  constraint clients_monthly_revenue_check CHECK ((monthly_revenue <> 'NaN'::numeric)),
  constraint clients_total_revenue_check CHECK ((total_revenue <> 'NaN'::numeric))
);

create table business_api.deliveries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  event_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  state text not null,
  due_at timestamp with time zone not null,
  constraint deliveries_pkey PRIMARY KEY (organization_id, id),
  constraint deliveries_organization_id_event_id_endpoint_id_key UNIQUE (organization_id, event_id, endpoint_id),
  constraint deliveries_organization_id_endpoint_id_fkey FOREIGN KEY (organization_id, endpoint_id) REFERENCES business_api.webhook_endpoints(organization_id, id),
  constraint deliveries_organization_id_event_id_fkey FOREIGN KEY (organization_id, event_id) REFERENCES business_api.events(organization_id, id)
);

create table business_api.events (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  type text not null,
  created_at timestamp with time zone not null,
  body text not null,
  constraint events_pkey PRIMARY KEY (organization_id, id)
);

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

create table business_api.organization_limits (
  organization_id text collate "C" not null,
  per_second double precision not null,
  burst integer not null,
  constraint organization_limits_pkey PRIMARY KEY (organization_id),
  constraint organization_limits_burst_check CHECK (((per_second > (0)::double precision) AND (burst > 0)))
);

create table business_api.projects (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  status text not null,
  billing_type text not null,
  value numeric(15,3) not null,
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
  constraint proposals_pkey PRIMARY KEY (organization_id, id),
  constraint proposals_organization_id_number_key UNIQUE (organization_id, number),
  constraint proposals_monthly_total_check CHECK ((monthly_total <> 'NaN'::numeric)),
  constraint proposals_total_check CHECK ((total <> 'NaN'::numeric)),
  constraint proposals_version_check CHECK ((version >= 1))
);

create unlogged table business_api.rate_buckets (
  organization_id text collate "C" not null,
  bucket text collate "C" not null,
  full_at double precision not null,
  constraint rate_buckets_pkey PRIMARY KEY (organization_id, bucket)
) with (fillfactor=50);

create table business_api.webhook_endpoints (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  url text not null,
  types text[],
  state text not null,
  created_at timestamp with time zone not null,
  constraint webhook_endpoints_pkey PRIMARY KEY (organization_id, id),
  constraint webhook_endpoints_state_check CHECK ((state = ANY (ARRAY['enabled'::text, 'paused'::text, 'disabled'::text])))
);

CREATE INDEX leads_organization_id_business_id_idx ON business_api.leads USING btree (organization_id, business_id);

CREATE OR REPLACE FUNCTION business_api.admit(digest text, scope text, key_per_second double precision, key_burst integer, organization_per_second double precision, organization_burst integer, page text DEFAULT NULL::text)
 RETURNS TABLE(admission text, admitted_page text)
 LANGUAGE plpgsql
 SET search_path TO ''
 SET lock_timeout TO '4s'
AS $function$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  caller record;
  now_seconds double precision;
  key_full_at double precision;
  organization_full_at double precision;
  key_after double precision;
  organization_after double precision;
  wait_seconds double precision := 0;
  rate_limit json;
begin
  select k.organization_id, k.id,
         $2 = any (k.scopes) as has_scope,
         coalesce(k.per_second, $3) as key_rate, coalesce(k.burst, $4) as key_burst,
         coalesce(o.per_second, $5) as organization_rate, coalesce(o.burst, $6) as organization_burst,
         k.last_used_at is null or k.last_used_at < at_time - interval '1 minute' as last_use_is_stale
    into caller
    from business_api.api_keys k
    left join business_api.organization_limits o on o.organization_id = k.organization_id
   where k.digest = $1
     and (k.revoked_at is null or k.revoked_at > at_time)
     and (k.expires_at is null or k.expires_at > at_time);
  if not found then
    return query select '{"outcome":"unauthenticated"}', null::text;
    return;
  end if;

  if $3 is not null then
    -- Always the key's row before the organization's, also when they are first made: no two requests can deadlock.
    for attempt in 1..3 loop
      select b.full_at into key_full_at from business_api.rate_buckets b
       where b.organization_id = caller.organization_id and b.bucket = caller.id for no key update;
      exit when found;
      insert into business_api.rate_buckets (organization_id, bucket, full_at)
      values (caller.organization_id, caller.id, 0) on conflict do nothing;
    end loop;
    for attempt in 1..3 loop
      select b.full_at into organization_full_at from business_api.rate_buckets b
       where b.organization_id = caller.organization_id and b.bucket = 'organization' for no key update;
      exit when found;
      insert into business_api.rate_buckets (organization_id, bucket, full_at)
      values (caller.organization_id, 'organization', 0) on conflict do nothing;
    end loop;

    if key_full_at is null or organization_full_at is null then
      raise exception 'Cannot take a token as business_api.rate_buckets does not keep its rows';
    end if;

    -- The clock is read again, as the locks may have been waited for. A bucket is never more than empty, so that a
    -- limit that was raised counts at once.
    now_seconds := extract(epoch from clock_timestamp());
    key_full_at := least(key_full_at, now_seconds + caller.key_burst / caller.key_rate);
    organization_full_at := least(
      organization_full_at, now_seconds + caller.organization_burst / caller.organization_rate
    );
    key_after := greatest(key_full_at, now_seconds) + 1 / caller.key_rate;
    organization_after := greatest(organization_full_at, now_seconds) + 1 / caller.organization_rate;
    wait_seconds := greatest(
      key_after - now_seconds - caller.key_burst / caller.key_rate,
      organization_after - now_seconds - caller.organization_burst / caller.organization_rate
    );
    -- Ten microseconds forgive what floating point adds; without them a full bucket can refuse its last token.
    if wait_seconds <= 0.00001 then
      wait_seconds := 0;
      update business_api.rate_buckets b
         set full_at = case b.bucket when caller.id then key_after else organization_after end
       where b.organization_id = caller.organization_id and b.bucket in (caller.id, 'organization');
      key_full_at := key_after;
      organization_full_at := organization_after;
    end if;

    rate_limit := json_build_object(
      'key', business_api.describe_bucket(key_full_at - now_seconds, caller.key_rate, caller.key_burst),
      'organization', business_api.describe_bucket(
        organization_full_at - now_seconds, caller.organization_rate, caller.organization_burst
      ),
      'retryAfterMs', wait_seconds * 1000
    );
  end if;

  return query select
    json_build_object(
      'outcome', case when wait_seconds > 0 then 'limited' when caller.has_scope then 'admitted' else 'forbidden' end,
      'caller', json_build_object('organizationId', caller.organization_id, 'keyId', caller.id),
      'rateLimit', rate_limit,
      'lastUseIsStale', caller.last_use_is_stale
    )::text,
    case when wait_seconds = 0 and caller.has_scope then $7 end;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.describe_bucket(full_in double precision, per_second double precision, burst integer)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  select json_build_object(
    'perSecond', per_second,
    'burst', burst,
    'remaining', greatest(0, burst - ceil(greatest(0, full_in) * per_second - 0.001)),
    'resetMs', greatest(0, full_in) * 1000
  )
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

CREATE OR REPLACE FUNCTION business_api.likely_organization(digest text, scope text, key_per_second double precision, key_burst integer, organization_per_second double precision, organization_burst integer)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  select k.organization_id
    from business_api.api_keys k
    left join business_api.organization_limits o on o.organization_id = k.organization_id
   where k.digest = $1
     and $2 = any (k.scopes)
     and (k.revoked_at is null or k.revoked_at > now())
     and (k.expires_at is null or k.expires_at > now())
     and ($3 is null or not exists (
       select from business_api.rate_buckets b
        where b.organization_id = k.organization_id
          and b.bucket in (k.id, 'organization')
          and b.full_at - extract(epoch from now()) > case b.bucket
            when k.id then (coalesce(k.burst, $4) - 0.5) / coalesce(k.per_second, $3)
            else (coalesce(o.burst, $6) - 0.5) / coalesce(o.per_second, $5)
          end
     ))
$function$;

CREATE OR REPLACE FUNCTION business_api.new_id(kind text)
 RETURNS text
 LANGUAGE sql
 SET search_path TO ''
AS $function$
  select kind || '_' || string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', digit + 1, 1), '' order by position)
    from (
      select i as position, ((floor(extract(epoch from clock_timestamp()) * 1000)::bigint >> (45 - 5 * i)) & 31)::int as digit
        from generate_series(0, 9) as i
      union all
      select 10 + i, get_byte(random.bytes, i) & 31
        from (select uuid_send(gen_random_uuid()) as bytes) as random, generate_series(0, 15) as i
    ) as digits
$function$;

CREATE OR REPLACE FUNCTION business_api.publish_event(organization_id text, type text, data jsonb, id text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  event_id text := coalesce(id, business_api.new_id('evt'));
  created_at text := to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
begin
  if organization_id is null or organization_id = '' then
    raise exception 'Cannot publish an event without an organization' using errcode = 'invalid_parameter_value';
  end if;
  if type is null or type <> all (business_api.event_types()) then
    raise exception 'Cannot publish an event as % is not a type of event', coalesce(type, 'null') using errcode = 'invalid_parameter_value';
  end if;
  if data is null or jsonb_typeof(data) <> 'object' then
    raise exception 'Cannot publish % as its data is not a JSON object', type using errcode = 'invalid_parameter_value';
  end if;
  perform business_api.record_events(organization_id, jsonb_build_array(jsonb_build_object(
    'id', event_id,
    'type', type,
    'createdAt', created_at,
    'body', format(
      '{"id":%s,"type":%s,"createdAt":%s,"data":%s}',
      to_json(event_id), to_json(type), to_json(created_at), data
    )
  )));
  return event_id;
end
$function$;

CREATE OR REPLACE FUNCTION business_api.record_events(organization_id text, events jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  written bigint;
begin
  with recorded as (
    insert into business_api.events (organization_id, id, type, created_at, body)
    select $1, e.id, e.type, e."createdAt", e.body
      from jsonb_to_recordset($2) as e (id text, type text, "createdAt" timestamptz, body text)
    on conflict do nothing
    returning id, type
  ), fanned_out as (
    insert into business_api.deliveries (organization_id, id, event_id, endpoint_id, state, due_at)
    select $1, business_api.new_id('dlv'), recorded.id, endpoint.id,
           case endpoint.state when 'disabled' then 'skipped' else 'pending' end, now()
      from recorded
      join business_api.webhook_endpoints endpoint
        on endpoint.organization_id = $1 and (endpoint.types is null or recorded.type = any (endpoint.types))
    returning 1
  )
  select count(*) into written from fanned_out;
  return written;
end
$function$;
