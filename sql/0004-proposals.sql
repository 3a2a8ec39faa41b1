-- Proposals. A revision raises the version of the same proposal; its number stays.

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
  constraint proposals_total_check check (total <> 'NaN'),
  constraint proposals_monthly_total_check check (monthly_total <> 'NaN'),
  constraint proposals_pkey primary key (organization_id, id),
  constraint proposals_organization_id_number_key unique (organization_id, number),
  constraint proposals_version_check check (version >= 1)
);
