-- Proposals. A revision increments a proposal's version but keeps its number.

create function business_api.proposal_representation(
  id text, number text, title text, status text, version integer, total numeric, monthly_total numeric, currency text
) returns text
language plpgsql immutable
set search_path = ''
as $$
begin
  return '{"id":' || to_json(id)::text
    || ',"number":' || to_json(number)::text
    || ',"title":' || to_json(title)::text
    || ',"status":' || to_json(status)::text
    || ',"version":' || version::text
    || ',"total":' || trim_scale(total)::text
    || ',"monthlyTotal":' || trim_scale(monthly_total)::text
    || ',"currency":' || to_json(currency)::text
    || '}';
end
$$;

create table business_api.proposals (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  number text not null,
  title text not null,
  status text not null,
  version integer not null,
  total numeric(15, 3) not null,
  monthly_total numeric(15, 3) not null,
  currency text not null,
  latest_changes text[] collate "C" not null default '{}',
  signed_by text,
  -- The currency's number of decimal places.
  minor_units smallint not null default 3,
  signed_at timestamptz,
  changed_xid xid8 not null default pg_current_xact_id(),
  updated_at timestamptz not null default now(),
  representation text not null generated always as (
    business_api.proposal_representation(id, number, title, status, version, total, monthly_total, currency)
  ) stored,
  constraint proposals_total_check check (total <> 'NaN'),
  constraint proposals_monthly_total_check check (monthly_total <> 'NaN'),
  constraint proposals_pkey primary key (organization_id, id),
  constraint proposals_organization_id_number_key unique (organization_id, number),
  constraint proposals_version_check check (version >= 1),
  constraint proposals_minor_units_check check (minor_units between 0 and 4),
  constraint proposals_signed_at_check check ((signed_by is null) = (signed_at is null))
);

create index proposals_organization_id_status_id_idx on business_api.proposals (organization_id, status, id);

create index proposals_organization_id_changed_xid_id_idx on business_api.proposals (organization_id, changed_xid, id);

create index proposals_organization_id_updated_at_id_idx on business_api.proposals (organization_id, updated_at, id);
