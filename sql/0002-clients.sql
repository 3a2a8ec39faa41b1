-- The clients that businesses become. The foreign key names the organization too, so that a client can never reach into
-- another organization; the same holds for every table below.
-- Locks: business_api.businesses against writes, for the moment that the foreign key takes; every other object is new.

-- Writes the representation of a client without the last field, the business. A statement that reads a client joins the stored
-- texts of client and business, and so always shows the present business.
create function business_api.client_representation(
  id text, status text, total_revenue numeric, monthly_revenue numeric, converted_at timestamptz
) returns text
language plpgsql immutable
set search_path = ''
as $$
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
$$;

create table business_api.clients (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  business_id text collate "C" not null,
  status text not null,
  total_revenue numeric(15, 3) not null,
  monthly_revenue numeric(15, 3) not null,
  converted_at timestamptz not null,
  -- The ids of the record's latest changes, newest first. A change that is sent again because the answer was lost finds its id
  -- here, also after a few other changes. Other tables have the same column for the same purpose.
  latest_changes text[] collate "C" not null default '{}',
  representation text not null generated always as (
    business_api.client_representation(id, status, total_revenue, monthly_revenue, converted_at)
  ) stored,
  constraint clients_total_revenue_check check (total_revenue <> 'NaN'),
  constraint clients_monthly_revenue_check check (monthly_revenue <> 'NaN'),
  constraint clients_pkey primary key (organization_id, id),
  constraint clients_organization_id_business_id_key unique (organization_id, business_id),
  constraint clients_organization_id_business_id_fkey
    foreign key (organization_id, business_id) references business_api.businesses (organization_id, id)
);

-- The host's lists of one status, newest first. Every table of records has such an index.
create index clients_organization_id_status_id_idx on business_api.clients (organization_id, status, id);
