-- Projects.
-- Locks: nothing in use; every object is new.

create table business_api.projects (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  status text not null,
  billing_type text not null,
  value numeric(15, 3) not null,
  latest_changes text[] collate "C" not null default '{}',
  constraint projects_value_check check (value <> 'NaN'),
  constraint projects_pkey primary key (organization_id, id)
);
