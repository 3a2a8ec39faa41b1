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
  latest_changes text[] collate "C" not null default '{}',
  -- The transaction that wrote the record last, and its beginning. A client that syncs reads records in the order of transactions,
  -- up to those that may still be running. Every update of the library sets both anew. The following tables have the same columns.
  changed_xid xid8 not null default pg_current_xact_id(),
  updated_at timestamptz not null default now(),
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

-- The records that changed since a transaction, and since a time.
create index clients_organization_id_changed_xid_id_idx on business_api.clients (organization_id, changed_xid, id);
create index clients_organization_id_updated_at_id_idx on business_api.clients (organization_id, updated_at, id);

-- Marks the client of a changed business as changed, because the client is shown with the business. The query sees
-- more than the statement that calls: also a client that was committed while the statement waited for the business. The caller
-- holds the business locked `for update`, so that a new client waits, by its foreign key, until the change is committed.
create function business_api.touch_client_of(organization_id text, business_id text) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  update business_api.clients c set changed_xid = default, updated_at = default
   where c.organization_id = $1 and c.business_id = $2;
  return 1;
end
$$;
