-- Businesses, and the clients they become. IDs are ULIDs, so reading a key (organization_id, id) backwards returns the
-- newest records first, and every list scans a single index. Collation "C" compares IDs as bytes. All keys start with
-- organization_id as a second line of defense for tenant isolation.

-- Records are stored with their representation, the JSON string returned by the API, so lists only have to join
-- strings. As a generated column, it's correct even for rows written with SQL. The functions are declared immutable
-- although to_json and to_char are only stable, because these types are formatted the same way under any session
-- settings.
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

-- A business has at most one client, and the API returns clients along with their business, so both share a row. A list
-- reads one index entry and one row per client, and syncing clients see changes of the business.
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
  -- IDs of the latest changes, newest first, used to detect that a change is being retried because its result was lost.
  -- Other tables have the same column.
  latest_changes text[] collate "C" not null default '{}',
  -- The transaction that last wrote the record, and when it started. Syncing clients read records in transaction order,
  -- except for transactions that may still be running. Every update must set both. Other tables do the same.
  changed_xid xid8 not null default pg_current_xact_id(),
  updated_at timestamptz not null default now(),
  -- The client's representation, including the business, or null without a client. A business on its own is rarely
  -- returned, so representation is built on demand.
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

-- For lists of clients, newest first, including the host's lists by status. All record tables have such indexes.
create unique index businesses_organization_id_client_id_idx on business_api.businesses (organization_id, client_id)
  where client_id is not null;

create index businesses_organization_id_client_status_client_id_idx
  on business_api.businesses (organization_id, client_status, client_id) where client_id is not null;

-- For clients changed since a transaction or a time.
create index businesses_organization_id_changed_xid_client_id_idx
  on business_api.businesses (organization_id, changed_xid, client_id) where client_id is not null;

create index businesses_organization_id_updated_at_client_id_idx
  on business_api.businesses (organization_id, updated_at, client_id) where client_id is not null;
