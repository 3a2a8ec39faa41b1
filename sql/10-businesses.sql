-- Businesses, and the clients that businesses become. Ids are ULIDs: a key (organization_id, id) read backwards returns the newest
-- record first, and every list is a scan of one index. Collation "C" compares ids as bytes. Every key begins with organization_id, the
-- second line of tenant isolation.

-- Every record is stored together with its representation: the JSON text that the API shows. The text is a generated column,
-- and therefore right for every row, also for a row written by SQL; a list only joins texts. The functions of the
-- representations are declared immutable although to_json and to_char are only stable, because texts, numerics, integers and
-- timestamps in UTC are written alike under all settings of a session.

-- Writes the representation of a business.
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

-- Returns a client's representation, with its business's.
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

-- A business has at most one client, and a client is shown with the business. So both are one row: a list reads one index entry and row
-- for each client, changing the business changes the client for syncing clients, and manual SQL shows at once.
create table business_api.businesses (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  category text,
  city text,
  email text,
  phone text,
  -- The client that the business has become. Null until then, each of the five.
  client_id text collate "C",
  client_status text,
  total_revenue numeric(15, 3),
  monthly_revenue numeric(15, 3),
  converted_at timestamptz,
  -- The ids of the record's latest changes, newest first. A change that is sent again because the result was lost finds its id
  -- here, also after a few other changes. Other tables have the same column for the same purpose.
  latest_changes text[] collate "C" not null default '{}',
  -- The transaction that wrote the record last, and its beginning. A client that syncs reads records in the order of transactions,
  -- up to those that may still be running. Every update of the library sets both anew. The following tables have the same columns.
  changed_xid xid8 not null default pg_current_xact_id(),
  updated_at timestamptz not null default now(),
  -- The client with the business; null while the business is not a client. A business alone is rarely shown, and rendered when it is
  -- read.
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

-- Lists of clients, newest first: all, and the host's lists by status. Every table of records has such an index.
create unique index businesses_organization_id_client_id_idx on business_api.businesses (organization_id, client_id)
  where client_id is not null;

create index businesses_organization_id_client_status_client_id_idx
  on business_api.businesses (organization_id, client_status, client_id) where client_id is not null;

-- The clients that changed since a transaction, and since a time.
create index businesses_organization_id_changed_xid_client_id_idx
  on business_api.businesses (organization_id, changed_xid, client_id) where client_id is not null;

create index businesses_organization_id_updated_at_client_id_idx
  on business_api.businesses (organization_id, updated_at, client_id) where client_id is not null;
