-- API keys. Looking up a key by its digest is the only lookup that can't start with organization_id, because the key
-- determines the organization.
--
-- All functions in this schema set an empty search_path. Otherwise a function in `public` could shadow one of
-- PostgreSQL's and decide which organization a request belongs to.
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
  -- The last announced expiry, and the token of the call that claimed the notice. A new expiry is announced again.
  expiry_noticed timestamptz,
  expiry_noticed_by text collate "C",
  -- Set by a rotation. Otherwise a second rotation would mistake the end of the overlap for the key's own expiry.
  successor_id text collate "C",
  constraint api_keys_pkey primary key (organization_id, id),
  constraint api_keys_digest_key unique (digest),
  constraint api_keys_burst_check check ((per_second is null) = (burst is null) and per_second > 0 and burst > 0)
);

create index api_keys_expires_at_idx on business_api.api_keys (expires_at) where expires_at is not null;

-- One row for each organization that has added an API key or endpoint. Calls that add something with a limit start by
-- updating this row, so they run one after another and always see the latest count.
create table business_api.settings_turns (
  organization_id text collate "C" not null,
  turn bigint not null,
  constraint settings_turns_pkey primary key (organization_id)
);

-- Waits for the organization's other calls that add something with a limit. We use an update and not just a lock,
-- because under repeatable read, an update fails a call that had to wait. The call is then retried instead of counting
-- stale rows.
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

-- Counts an organization's keys that are active at a given time.
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

-- Inserts a key. See ApiKeyStore.insert in lib/access/api-keys.ts. Returns the key with this ID, and true if this call
-- inserted it. Returns no row if the organization has reached its limit, and no key if the digest is taken.
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
    insert into business_api.api_keys as k
      (organization_id, id, digest, name, scopes, prefix, last_four, per_second, burst, created_at, expires_at)
    values (
      $1, new_key ->> 'id', new_key ->> 'digest', new_key ->> 'name', scopes, new_key ->> 'prefix', new_key ->> 'lastFour',
      (new_key #>> '{rateLimit,perSecond}')::double precision, (new_key #>> '{rateLimit,burst}')::integer,
      (new_key ->> 'createdAt')::timestamptz, (new_key ->> 'expiresAt')::timestamptz
    )
    on conflict (digest) do nothing
    returning k.* into key;
    is_new := found;
  end if;
  return next;
end
$$;

-- Creates a key's successor. See ApiKeyStore.rotate in lib/access/api-keys.ts. This isn't a single statement because a
-- rotation that had to wait for the key's row must see the latest commits. Returns no row if the key doesn't exist.
create function business_api.rotate_api_key(
  organization_id text, key_id text, successor jsonb, overlap_ms double precision, key_limit integer
) returns table (outcome text, is_new boolean, previous business_api.api_keys, key business_api.api_keys)
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  at_time timestamptz;
  overlap_end timestamptz;
begin
  select k.* into previous from business_api.api_keys k
   where k.organization_id = $1 and k.id = key_id
     for no key update;
  if not found then
    return;
  end if;
  perform business_api.take_settings_turn($1);

  is_new := false;
  select k.* into key from business_api.api_keys k
   where k.organization_id = $1 and k.id = successor ->> 'id';
  if found then
    outcome := case
      when previous.successor_id = key.id and key.digest = successor ->> 'digest' then 'rotated'
      else 'already_exists'
    end;
    return next;
    return;
  end if;

  -- Read the clock only after waiting for the row.
  at_time := clock_timestamp();
  overlap_end := at_time + overlap_ms * interval '1 millisecond';
  if previous.successor_id is not null or previous.revoked_at <= at_time or previous.expires_at <= at_time then
    outcome := 'refused';
    return next;
    return;
  end if;
  if overlap_ms > 0 and business_api.count_api_keys_in_force($1, at_time) >= key_limit then
    outcome := 'limit_reached';
    return next;
    return;
  end if;

  outcome := 'rotated';
  is_new := true;
  insert into business_api.api_keys as k
    (organization_id, id, digest, name, scopes, prefix, last_four, per_second, burst, created_at, expires_at)
  values (
    $1, successor ->> 'id', successor ->> 'digest', previous.name, previous.scopes, successor ->> 'prefix',
    successor ->> 'lastFour', previous.per_second, previous.burst, (successor ->> 'createdAt')::timestamptz,
    case when successor ? 'expiresAt' then (successor ->> 'expiresAt')::timestamptz else previous.expires_at end
  )
  returning k.* into key;
  update business_api.api_keys k
     set successor_id = successor ->> 'id',
         revoked_at = case when overlap_ms > 0 then k.revoked_at else at_time end,
         -- The earlier of the two, since `least` ignores nulls.
         expires_at = case
           when overlap_ms > 0 then least(k.expires_at, overlap_end)
           else k.expires_at
         end
   where k.organization_id = $1 and k.id = key_id
  returning k.* into previous;
  return next;
end
$$;
