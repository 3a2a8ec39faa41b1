-- API keys. The look-up by digest is the only look-up that cannot begin with organization_id, because the key determines the
-- organization of a request.
--
-- Every function of the schema empties search_path. Otherwise a function in `public` that has the name of a function of
-- PostgreSQL and takes any type could be called instead, and could determine the organization of a request.
-- Locks: nothing in use; every object is new.

create table business_api.api_keys (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  digest text collate "C" not null,
  name text not null,
  scopes text[] not null,
  prefix text not null,
  last_four text not null,
  per_second double precision,
  burst integer,
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  -- The expiry in the latest notice, and the token of the call that claimed the notice. A new expiry gets a new notice.
  expiry_noticed timestamptz,
  expiry_noticed_by text collate "C",
  -- Set by a rotation. A second rotation would otherwise take the end of the overlap for the key's own expiry.
  successor_id text collate "C",
  constraint api_keys_pkey primary key (organization_id, id),
  constraint api_keys_digest_key unique (digest),
  constraint api_keys_burst_check check ((per_second is null) = (burst is null) and per_second > 0 and burst > 0)
);

create index api_keys_expires_at_idx on business_api.api_keys (expires_at) where expires_at is not null;

-- One row for each organization that has added an API key or an endpoint. Calls that add a record under a limit update the row
-- first, and therefore run one after the other: each call counts the rows that the previous call has committed.
create table business_api.settings_turns (
  organization_id text collate "C" not null,
  turn bigint not null,
  constraint settings_turns_pkey primary key (organization_id)
);

-- Waits for the end of the organization's other calls that add a record under a limit. An update instead of a mere lock: under
-- repeatable read the update refuses a call that has waited, and the call is sent again instead of counting old rows.
create function business_api.take_settings_turn(organization_id text) returns void
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into business_api.settings_turns as present (organization_id, turn) values ($1, 1)
  on conflict (organization_id) do update set turn = present.turn + 1;
end
$$;

-- Counts the keys of an organization that are in force at a time.
create function business_api.count_api_keys_in_force(organization_id text, at_time timestamptz) returns bigint
language plpgsql volatile
set search_path = ''
as $$
begin
  return (
    select count(*) from business_api.api_keys k
     where k.organization_id = $1
       and (k.revoked_at is null or k.revoked_at > at_time)
       and (k.expires_at is null or k.expires_at > at_time)
  );
end
$$;

-- Inserts a key: see ApiKeyStore.insert in lib/access/api-keys.ts. Returns the key with the id, and true if this call inserted
-- the key; no row if the organization has reached the limit.
create function business_api.insert_api_key(organization_id text, new_key jsonb, key_limit integer)
returns table (is_new boolean, key business_api.api_keys)
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  scopes text[] := array(select jsonb_array_elements_text(new_key -> 'scopes'));
begin
  perform business_api.take_settings_turn($1);
  is_new := false;
  select k.* into key from business_api.api_keys k
   where k.organization_id = $1 and k.id = new_key ->> 'id';
  if not found then
    if business_api.count_api_keys_in_force($1, clock_timestamp()) >= key_limit then
      return;
    end if;
    is_new := true;
    insert into business_api.api_keys as k
      (organization_id, id, digest, name, scopes, prefix, last_four, per_second, burst, created_at, expires_at)
    values (
      $1, new_key ->> 'id', new_key ->> 'digest', new_key ->> 'name', scopes, new_key ->> 'prefix', new_key ->> 'lastFour',
      (new_key #>> '{rateLimit,perSecond}')::double precision, (new_key #>> '{rateLimit,burst}')::integer,
      (new_key ->> 'createdAt')::timestamptz, (new_key ->> 'expiresAt')::timestamptz
    )
    returning k.* into key;
  end if;
  return next;
end
$$;
