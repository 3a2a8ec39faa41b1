-- Audit entries, one for each change of the developer settings, with the person or program that made it. A change and
-- its entry are always written by the same statement, so neither exists without the other.
create table business_api.audit_entries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  changed_at timestamptz not null,
  -- The host's name for the user or program that made the change.
  actor text,
  action text not null,
  subject_id text collate "C" not null,
  details jsonb not null,
  constraint audit_entries_pkey primary key (organization_id, id)
);

create index audit_entries_subject_idx on business_api.audit_entries (organization_id, subject_id, id);

create index audit_entries_action_idx on business_api.audit_entries (organization_id, action, id);

create index audit_entries_actor_idx on business_api.audit_entries (organization_id, actor, id);

-- For limiting the number of tests. See record_test.
create index audit_entries_tests_idx on business_api.audit_entries (organization_id, changed_at)
  where action = 'endpoint.test_sent';

-- Returns true if an entry exists. The function is volatile so that it sees what was committed while the calling
-- statement was waiting for a lock, for example the first attempt of a retried change.
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

-- Adds to a number in the details of an entry that several calls share. The first of them records the entry, about the
-- organization if it has no subject.
create function business_api.count_in_entry(organization_id text, entry jsonb, name text, added bigint) returns void
language plpgsql volatile
set search_path = ''
as $$
begin
  insert into business_api.audit_entries as audit (organization_id, id, changed_at, actor, action, subject_id, details)
  values (
    $1, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', coalesce(entry ->> 'subjectId', $1),
    coalesce(entry -> 'details', '{}') || jsonb_build_object(name, added)
  )
  on conflict on constraint audit_entries_pkey do update set
    details = audit.details || jsonb_build_object(name, (audit.details ->> name)::bigint + added);
end
$$;

-- Returns true if a subject has an entry with this change ID. Volatile for the same reason as is_recorded.
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

-- Records an endpoint test and returns whether it was recorded. See AuditStore.recordTest in lib/access/audit.ts. An
-- organization's calls run one after another, so each call counts all committed tests.
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
  -- Read the clock only after waiting for our turn.
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
