-- Leads of existing businesses. The foreign key includes the organization, so a lead can never refer to another
-- organization's business. The same goes for all tables below.

create function business_api.lead_representation(
  id text, stage text, lead_score numeric, score_band text, expected_value numeric, created_at timestamptz
) returns text
language plpgsql immutable
set search_path = ''
as $$
begin
  return '{"id":' || to_json(id)::text
    || ',"stage":' || to_json(stage)::text
    || ',"leadScore":' || coalesce(trim_scale(lead_score)::text, 'null')
    || ',"scoreBand":' || coalesce(to_json(score_band)::text, 'null')
    || ',"expectedValue":' || coalesce(trim_scale(expected_value)::text, 'null')
    || ',"createdAt":' || coalesce(
      to_json(to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, 'null'
    )
    || '}';
end
$$;

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
  changed_xid xid8 not null default pg_current_xact_id(),
  updated_at timestamptz not null default now(),
  representation text not null generated always as (
    business_api.lead_representation(id, stage, lead_score, score_band, expected_value, created_at)
  ) stored,
  constraint leads_expected_value_check check (expected_value <> 'NaN'),
  constraint leads_lead_score_check check (lead_score between 0 and 100),
  constraint leads_pkey primary key (organization_id, id),
  constraint leads_organization_id_business_id_fkey
    foreign key (organization_id, business_id) references business_api.businesses (organization_id, id)
);

create index leads_organization_id_business_id_id_idx on business_api.leads (organization_id, business_id, id);

create index leads_organization_id_stage_id_idx on business_api.leads (organization_id, stage, id);

create index leads_organization_id_changed_xid_id_idx on business_api.leads (organization_id, changed_xid, id);

create index leads_organization_id_updated_at_id_idx on business_api.leads (organization_id, updated_at, id);
