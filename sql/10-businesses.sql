-- Businesses, and the clients they become. IDs are ULIDs, so reading a key (organization_id, id) backwards returns the
-- newest records first, and every list is a scan of a single index. Collation "C" compares IDs as bytes. All keys start
-- with organization_id as a second line of defense for tenant isolation.

-- All records are stored with their representation, which is the JSON text returned by the API, so lists only have to
-- join texts. It's a generated column, so it's correct even for rows that are written with SQL. The functions are
-- declared immutable although to_json and to_char are only stable, because texts, numerics, integers and UTC timestamps
-- are formatted the same way with any session settings.

-- Returns the representation of a business.
create function business_api.business_representation(
  id text, name text, category text, city text, email text, phone text
) returns text
language plpgsql immutable
set search_path = ''
as $$
begin
  return '{"id":' || to_json(id)::text
    || ',"name":' || to_json(name)::text
    || ',"category":' || coalesce(to_json(category)::text, 'null')
    || ',"city":' || coalesce(to_json(city)::text, 'null')
    || ',"email":' || coalesce(to_json(email)::text, 'null')
    || ',"phone":' || coalesce(to_json(phone)::text, 'null')
    || '}';
end
$$;

-- Returns the representation of a client, including that of its business.
create function business_api.client_representation(
  id text, status text, total_revenue numeric, monthly_revenue numeric, converted_at timestamptz, business text
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
    || ',"business":' || business || '}';
end
$$;

-- A business has at most one client, and the API returns clients with their business. That's why both are in the same
-- row: a list only reads one index entry and one row per client, syncing clients see changes of the business, and
-- manual SQL takes effect immediately.
create table business_api.businesses (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  category text,
  city text,
  email text,
  phone text,
  -- The client this business has become. These five columns are null if it isn't a client.
  client_id text collate "C",
  client_status text,
  total_revenue numeric(15, 3),
  monthly_revenue numeric(15, 3),
  converted_at timestamptz,
  -- IDs of the latest changes, newest first. When a change is retried because its result was lost, it finds its ID
  -- here, even after a few other changes. Other tables use this column in the same way.
  latest_changes text[] collate "C" not null default '{}',
  -- The transaction that last wrote the record, and when it started. Syncing clients read records in the order of their
  -- transactions, except for transactions that may still be running. Every update must set both. The tables below have
  -- the same columns.
  changed_xid xid8 not null default pg_current_xact_id(),
  updated_at timestamptz not null default now(),
  -- The representation of the client, including the business. Null if the business isn't a client. Businesses are
  -- rarely returned on their own, so their representation is built when they're read.
  representation text generated always as (
    case when client_id is not null then business_api.client_representation(
      client_id, client_status, total_revenue, monthly_revenue, converted_at,
      business_api.business_representation(id, name, category, city, email, phone)
    ) end
  ) stored,
  constraint businesses_client_id_check
    check (num_nulls(client_id, client_status, total_revenue, monthly_revenue, converted_at) in (0, 5)),
  constraint businesses_total_revenue_check check (total_revenue <> 'NaN'),
  constraint businesses_monthly_revenue_check check (monthly_revenue <> 'NaN'),
  constraint businesses_pkey primary key (organization_id, id)
);

-- For lists of clients, newest first: all of them, and the host's lists by status. All record tables have
-- indexes like these.
create unique index businesses_organization_id_client_id_idx on business_api.businesses (organization_id, client_id)
  where client_id is not null;

create index businesses_organization_id_client_status_client_id_idx
  on business_api.businesses (organization_id, client_status, client_id) where client_id is not null;

-- For clients that have changed since a transaction or since a time.
create index businesses_organization_id_changed_xid_client_id_idx
  on business_api.businesses (organization_id, changed_xid, client_id) where client_id is not null;

create index businesses_organization_id_updated_at_client_id_idx
  on business_api.businesses (organization_id, updated_at, client_id) where client_id is not null;
