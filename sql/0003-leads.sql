-- Leads of existing businesses.
-- Locks: business_api.businesses against writes, for the moment that the foreign key takes; every other object is new.

create table business_api.leads (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  business_id text collate "C" not null,
  stage text not null,
  lead_score numeric(15, 3),
  score_band text,
  expected_value numeric(15, 3),
  created_at timestamptz not null,
  latest_changes text[] collate "C" not null default '{}',
  constraint leads_expected_value_check check (expected_value <> 'NaN'),
  constraint leads_lead_score_check check (lead_score between 0 and 100),
  constraint leads_pkey primary key (organization_id, id),
  constraint leads_organization_id_business_id_fkey
    foreign key (organization_id, business_id) references business_api.businesses (organization_id, id)
);

create index leads_organization_id_business_id_idx on business_api.leads (organization_id, business_id);
