-- The clients that businesses become. The foreign key names the organization too, so that a client can never reach into
-- another organization; the same holds for every table below.

-- Copies of businesses. A client is shown with the business, and a list that looked up the business of each client would take 1.5 times
-- as long. So a client has a copy of the representation of the business, `business_copy`, and a list shows the copy. The rules:
--
-- 1. All copies of a business are equal to the column `copied` of the business. A statement of the library that changes `copied` locks
--    the business `for update` and writes the copies in the same transaction, except for the first value, while no copy exists.
-- 2. A statement of the library that gives a new client a copy of a business that exists already updates the business first, so that a
--    change of the business either waits for the commit, and then finds the client, or came first. A transaction that is repeatable read,
--    and does not see the other, fails with serialization_failure. If another transaction has locked the business, the client gets no
--    copy. A new business is invisible to others until the commit.
-- 3. SQL by hand may change, insert or delete businesses and clients, but leaves `copied`, `business_copy` and `copy_of` as they are. A
--    business that was changed by hand has a representation other than `copied`, and is in the index of outdated businesses: as
--    long as an organization has such a business, its lists look up each business. A client that was inserted by hand has no copy. A client
--    that was given another business by hand has a copy of the previous business: `has_copy` is false, and the list looks up the business. The
--    library clears or overwrites such a copy when it changes `copied` of that previous business, so that the copy is right if the client
--    gets the previous business again. (Some sequences of SQL need renew_copy: lib/postgres/README.md.)
--
-- A list reads the index and the clients in one snapshot. So with an empty index, and with `has_copy`, the copy is equal to
-- `copied`, and `copied` is equal to the representation of the business of the client. Neither needs a trigger or a cascade.

-- Writes the representation of a client without the last field, the business. A statement that reads a client joins the stored
-- texts of client and business.
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

-- Names a business, for a client's copy. A hash, because the key is stored with every client.
create function business_api.copy_key(organization_id text, business_id text) returns bigint
language plpgsql immutable parallel safe
set search_path = ''
as $$
begin
  return hashtextextended(business_id, hashtextextended(organization_id, 0));
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
  -- A copy of the representation of a business; null: none.
  business_copy text,
  -- The key of the business that the copy is of. SQL by hand may give the client another business.
  copy_of bigint,
  has_copy boolean not null generated always as (
    coalesce(business_copy is not null and copy_of = business_api.copy_key(organization_id, business_id), false)
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

-- The copies of businesses that clients had before SQL by hand gave the clients other businesses.
create index clients_organization_id_copy_of_idx on business_api.clients (organization_id, copy_of)
  where business_copy is not null and not has_copy;

-- Inserts the client that the conversion of a lead makes. A client that another conversion has made is an error, and has the
-- statement sent again. The update of the business comes first, and changes nothing that a list shows: see "Copies of businesses"
-- above. While the business is outdated, the client gets no copy, because `copied` may not change without all copies; nor while another
-- transaction has locked the business, so that a conversion does not wait for SQL of the host.
create function business_api.insert_converted_client(
  organization_id text, id text, business_id text, status text, total_revenue numeric, monthly_revenue numeric,
  converted_at timestamptz
) returns void
language plpgsql volatile
set search_path = ''
as $$
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
$$;

-- Writes the representation of a business to the client, and marks the client as changed, because the client is shown with the
-- business. The queries see more than the statement that calls: also a client that was committed while the statement waited for
-- the business. The caller sets the column `copied`, and holds the business locked `for update`, so that a new client waits, by the
-- foreign key, until the change is committed. A client that had the business before, and was given another one by hand, loses the copy:
-- otherwise the client would show an old copy after the way back.
create function business_api.copy_to_client(organization_id text, business_id text, representation text) returns integer
language plpgsql volatile
set search_path = ''
as $$
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
$$;

-- Copies a business to the client, and marks the client as changed: for SQL by hand, after a change of the business, and after a
-- change of the business that a client has. Returns the copy; null for an unknown business.
create function business_api.renew_copy(organization_id text, business_id text) returns text
language plpgsql volatile
set search_path = ''
as $$
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
$$;
