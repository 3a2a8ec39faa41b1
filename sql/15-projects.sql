create function business_api.project_representation(
  id text, name text, status text, billing_type text, value numeric
) returns text
language plpgsql immutable
set search_path = ''
as $$
begin
  return '{"id":' || to_json(id)::text
    || ',"name":' || to_json(name)::text
    || ',"status":' || to_json(status)::text
    || ',"billingType":' || to_json(billing_type)::text
    || ',"value":' || trim_scale(value)::text
    || '}';
end
$$;

create table business_api.projects (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  status text not null,
  billing_type text not null,
  value numeric(15, 3) not null,
  latest_changes text[] collate "C" not null default '{}',
  changed_xid xid8 not null default pg_current_xact_id(),
  updated_at timestamptz not null default now(),
  representation text not null
    generated always as (business_api.project_representation(id, name, status, billing_type, value)) stored,
  constraint projects_value_check check (value <> 'NaN'),
  constraint projects_pkey primary key (organization_id, id)
);

create index projects_organization_id_status_id_idx on business_api.projects (organization_id, status, id);

create index projects_organization_id_changed_xid_id_idx on business_api.projects (organization_id, changed_xid, id);

create index projects_organization_id_updated_at_id_idx on business_api.projects (organization_id, updated_at, id);
