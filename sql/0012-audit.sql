-- Who changed what in the developer settings, and API keys that replace one another. An entry is written by the statement
-- that makes the change, so that there is never one without the other.

create table business_api.audit_entries (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  changed_at timestamptz not null,
  -- The host's name for who did it.
  actor text,
  action text not null,
  subject_id text collate "C" not null,
  details jsonb not null,
  constraint audit_entries_pkey primary key (organization_id, id)
);

create index audit_entries_subject_idx on business_api.audit_entries (organization_id, subject_id, id);

-- Whether an entry is there by now. Volatile, so that it sees what was committed while its statement waited for a lock: an
-- attempt whose answer was lost may have been carried out only just now.
create function business_api.is_recorded(organization_id text, entry_id text) returns boolean
language sql volatile
set search_path = ''
as $$
  select exists (
    select from business_api.audit_entries e where e.organization_id = $1 and e.id = $2
  )
$$;

-- Without it a second rotation would take the end of the overlap for the key's own expiry, and give it to its successor.
alter table business_api.api_keys add column successor_id text collate "C";

-- Makes the successor of a key: see ApiKeyStore.rotate in lib/api-keys.ts. A function and no single statement, as what
-- waited for the key's row must see what was written meanwhile. Returns the key, and its successor if it is this one.
create function business_api.rotate_api_key(
  organization_id text, key_id text, successor jsonb, overlap_ms double precision
) returns setof business_api.api_keys
language plpgsql volatile
set search_path = ''
as $$
declare
  at_time timestamptz;
  key business_api.api_keys;
begin
  select k.* into key from business_api.api_keys k
   where k.organization_id = $1 and k.id = key_id
     for no key update;
  if not found then
    return;
  end if;

  -- Read after the wait for the row.
  at_time := clock_timestamp();
  if key.successor_id is null
     and (key.revoked_at is null or key.revoked_at > at_time)
     and (key.expires_at is null or key.expires_at > at_time) then
    insert into business_api.api_keys
      (organization_id, id, digest, name, scopes, prefix, last_four, per_second, burst, created_at, expires_at)
    select $1, s.id, s.digest, key.name, key.scopes, s.prefix, s."lastFour", key.per_second, key.burst, s."createdAt",
           case when successor ? 'expiresAt' then s."expiresAt" else key.expires_at end
      from jsonb_to_record(successor) as s (
        id text, digest text, prefix text, "lastFour" text, "createdAt" timestamptz, "expiresAt" timestamptz
      );
    update business_api.api_keys k
       set successor_id = successor ->> 'id',
           revoked_at = case when overlap_ms > 0 then k.revoked_at else at_time end,
           -- The smaller of what is not null.
           expires_at = case
             when overlap_ms > 0 then least(k.expires_at, at_time + overlap_ms * interval '1 millisecond')
             else k.expires_at
           end
     where k.organization_id = $1 and k.id = key_id;
  end if;

  return query
    select k.* from business_api.api_keys k
     where k.organization_id = $1 and k.id in (key_id, successor ->> 'id');
end
$$;
