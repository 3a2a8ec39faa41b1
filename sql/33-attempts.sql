-- The log of attempts, partitioned by day like deliveries (34-days.sql). There's no foreign key to deliveries because
-- each attempt would have to lock the delivery's row, which means another write.
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
  -- The target of a redirect. Null for all other responses, so this rarely takes up space.
  location text,
  -- AttemptHeaders in lib/webhooks/claims.ts. Null for a 2xx response.
  headers jsonb,
  constraint delivery_attempts_pkey primary key (organization_id, delivery_id, number)
) partition by range (delivery_id);

-- A finished attempt, as counted in the activity stats (47-activity.sql). `outcome` is `retry` or the delivery's final
-- state. `created_at` is the delivery's.
create type business_api.ended_attempt as (
  organization_id text, endpoint_id text, outcome text, created_at timestamptz, duration_ms real, status integer, error text
);

-- Returns each delivery's subject (the record that the event is about) and the status and error of its last attempt,
-- with one primary key lookup each in the partition of the delivery's day.
create function business_api.delivery_details(organization_id text, delivery_ids text[], event_ids text[])
returns table (delivery_id text, subject_id text, status integer, error text)
language plpgsql stable rows 64
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  first_id text;
  last_id text;
  first_day text;
begin
  select min(wanted.id collate "C"), max(wanted.id collate "C") into first_id, last_id from unnest($2) as wanted (id);
  -- A partition's bounds have 14 characters: dlv_ and the milliseconds.
  first_day := left(first_id, 14);
  return query
    select wanted.id, event.subject_id, last.status, last.error
      from unnest($2, $3) as wanted (id, event_id)
      left join lateral (
        select e.subject_id from business_api.events e
         where e.organization_id = $1 and e.id = wanted.event_id
           and e.delivery_prefix >= first_day and e.delivery_prefix <= last_id
         limit 1
      ) as event on true
      left join lateral (
        select a.status, a.error from business_api.delivery_attempts a
         where a.organization_id = $1 and a.delivery_id = wanted.id and a.delivery_id >= first_id and a.delivery_id <= last_id
         order by a.number desc
         limit 1
      ) as last on true;
end
$$;
select business_api.forbid_plans('delivery_details');
