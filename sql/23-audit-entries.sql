-- Audit entries: each change of the developer settings, with the person or program that made the change. One statement makes a
-- change and writes the entry, so neither exists alone.
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

create index audit_entries_action_idx on business_api.audit_entries (organization_id, action, id);

create index audit_entries_actor_idx on business_api.audit_entries (organization_id, actor, id);

-- For the bound of tests: see record_test.
create index audit_entries_tests_idx on business_api.audit_entries (organization_id, changed_at)
  where action = 'endpoint.test_sent';

-- Returns true if an entry exists. Volatile, so the function sees commits that happened while the calling statement waited
-- for a lock: the first try of a change that is sent again may have been committed only then.
create function business_api.is_recorded(organization_id text, entry_id text) returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  return exists (
    select 1 from business_api.audit_entries e where e.organization_id = $1 and e.id = $2
  );
end
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

-- Records a test of an endpoint: see AuditStore.recordTest in lib/access/audit.ts. Returns whether the entry is recorded. Calls
-- of an organization follow one another, so each counts the tests that the previous call has committed.
create function business_api.record_test(organization_id text, entry jsonb, test_limit integer, window_ms double precision)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  at_time timestamptz;
  tests bigint;
begin
  perform business_api.take_settings_turn($1);
  if business_api.is_recorded($1, entry ->> 'id') then
    return true;
  end if;
  -- The clock is read after the wait for the turn.
  at_time := clock_timestamp();
  select count(*) into tests from (
    select 1 from business_api.audit_entries e
     where e.organization_id = $1 and e.action = 'endpoint.test_sent'
       and e.changed_at > at_time - window_ms * interval '1 millisecond'
     limit test_limit
  ) as recent;
  if tests >= test_limit then
    return false;
  end if;
  insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
  values (
    $1, entry ->> 'id', at_time, entry ->> 'actor', entry ->> 'action', entry ->> 'subjectId', entry -> 'details'
  );
  return true;
end
$$;
