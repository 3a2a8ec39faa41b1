-- Audit entries: each change of the developer settings, with the person or program that made the change. One statement makes a
-- change and writes the entry, so that neither exists alone.
-- Locks: nothing in use; every object is new.

create table business_api.audit_entries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  changed_at timestamptz not null,
  -- The host's name for the person or program that made the change.
  actor text,
  action text not null,
  subject_id text collate "C" not null,
  details jsonb not null,
  constraint audit_entries_pkey primary key (organization_id, id)
);

create index audit_entries_subject_idx on business_api.audit_entries (organization_id, subject_id, id);

-- Returns true if an entry exists. Volatile, so that the function sees commits that happened while the calling statement waited
-- for a lock: the first try of a change that is sent again may have been committed only then.
create function business_api.is_recorded(organization_id text, entry_id text) returns boolean
language sql volatile
set search_path = ''
as $$
  select exists (
    select 1 from business_api.audit_entries e where e.organization_id = $1 and e.id = $2
  )
$$;

-- Returns true if a subject has an entry of a change with this id. Volatile, like is_recorded.
create function business_api.is_change_made(organization_id text, subject_id text, change_id text) returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  return exists (
    select 1 from business_api.audit_entries e
     where e.organization_id = $1 and e.subject_id = $2 and e.details ->> 'changeId' = $3
  );
end
$$;
