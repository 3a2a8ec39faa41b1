-- Businesses and the clients they become. Ids are ULIDs, so the primary key read backwards is "newest first" and every
-- list is one scan of one index; collation "C" compares them as bytes. Every key begins with organization_id: the
-- second line of tenant isolation, and what lets the tables be distributed by organization.

create table business_api.businesses (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  category text,
  city text,
  email text,
  phone text,
  constraint businesses_pkey primary key (organization_id, id)
);

create table business_api.clients (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  business_id text collate "C" not null,
  status text not null,
  total_revenue numeric(15, 3) not null,
  monthly_revenue numeric(15, 3) not null,
  converted_at timestamptz not null,
  constraint clients_total_revenue_check check (total_revenue <> 'NaN'),
  constraint clients_monthly_revenue_check check (monthly_revenue <> 'NaN'),
  constraint clients_pkey primary key (organization_id, id),
  constraint clients_organization_id_business_id_key unique (organization_id, business_id),
  constraint clients_organization_id_business_id_fkey
    foreign key (organization_id, business_id) references business_api.businesses (organization_id, id)
);
