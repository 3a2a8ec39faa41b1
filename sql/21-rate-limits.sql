-- Rate limits, and the check of requests by key and limits. See lib/postgres/admission/.

-- An organization's custom limit for all of its keys together, which replaces the API's default.
create table business_api.organization_limits (
  organization_id text collate "C" not null,
  per_second double precision not null,
  burst integer not null,
  constraint organization_limits_pkey primary key (organization_id),
  constraint organization_limits_burst_check check (per_second > 0 and burst > 0)
);

-- A bucket is stored as the time it will be full again (GCRA), in seconds since 1970. The table is unlogged because
-- full buckets are fine after a crash, and writing WAL for every request would cost more than the request itself. With
-- half-empty pages, updates of hot rows stay on the same page.
create unlogged table business_api.rate_buckets (
  organization_id text collate "C" not null,
  bucket text collate "C" not null,
  full_at double precision not null,
  constraint rate_buckets_pkey primary key (organization_id, bucket)
) with (fillfactor = 50);

-- Checks requests by the digests of their API keys. Looks up each key and its scopes, takes up to `wanted` tokens from
-- both the key's bucket and the organization's, and returns a row per digest, which has nulls if the key isn't active.
-- The given rates and bursts apply unless the key or the organization has its own limit. `key_full_in` and
-- `organization_full_in` are the seconds until the buckets are full again after taking the tokens. `tokens` is the
-- number of tokens taken, which is 0 if none were wanted.
--
-- This doesn't read any records and returns very little, so the buckets are only locked for a fraction of a
-- millisecond, even if the calling process is suspended. Buckets that are clearly empty aren't locked, so requests over
-- the limit don't wait. If `may_wait` is false, we never wait for locks or create buckets, and `tokens` is -1 if a
-- bucket is missing or locked by another statement. If `may_wait` is true, there must be only one digest, because
-- several locks wouldn't be taken in a consistent order.
--
-- Fails if the key's organization has moved to another shard. To detect this even if the key is no longer here, the
-- caller can pass the expected organization as a hint, or an empty string.
create function business_api.judge(
  digests text[],
  wanted integer[],
  key_rates double precision[],
  key_bursts double precision[],
  organization_rates double precision[],
  organization_bursts double precision[],
  organization_hints text[],
  may_wait boolean
) returns table (
  place bigint,
  organization_id text,
  key_id text,
  scopes text[],
  last_use_is_stale boolean,
  key_rate double precision,
  key_burst integer,
  own_rate double precision,
  own_burst integer,
  key_full_in double precision,
  organization_full_in double precision,
  tokens double precision
)
language plpgsql volatile
set search_path = ''
-- We don't call forbid_plans because all statements look up single rows by key, and every setting slows down the call.
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  key record;
  at double precision := date_part('epoch', clock_timestamp());
  rate double precision;
  burst double precision;
  organization_rate double precision;
  organization_burst double precision;
  -- A bucket that takes longer than this to be full again (in seconds) is below empty, because the limit was raised or
  -- the clock was set back, and is reset to empty once. An API's limits don't count, because another API with lower
  -- limits might use the same store and must not find its bucket refilled. The extra hundredth of a second covers
  -- floating-point errors.
  key_limit_in double precision;
  organization_limit_in double precision;
  key_full_at double precision;
  organization_full_at double precision;
begin
  for index in 1 .. cardinality(digests) loop
    -- These are subqueries because with empty tables, a join that scans both looks just as cheap, and that plan would
    -- stay cached after the tables have grown.
    select k.organization_id, k.id, k.scopes, k.per_second, k.burst, own.per_second as own_rate, own.burst as own_burst,
           k.last_used_at is null or k.last_used_at < clock_timestamp() - interval '1 minute' as last_use_is_stale,
           (select b.full_at from business_api.rate_buckets b
             where b.organization_id = k.organization_id and b.bucket = k.id) as key_full_at,
           (select b.full_at from business_api.rate_buckets b
             where b.organization_id = k.organization_id and b.bucket = 'organization') as organization_full_at,
           (select p.is_here from business_api.shard_places p
             where p.organization_id = k.organization_id order by p.version desc limit 1) as is_here
      into key
      from business_api.api_keys k
      left join lateral (
        select l.per_second, l.burst from business_api.organization_limits l where l.organization_id = k.organization_id offset 0
      ) as own on true
     where k.digest = digests[index]
       and (k.revoked_at is null or k.revoked_at > clock_timestamp())
       and (k.expires_at is null or k.expires_at > clock_timestamp());
    if not found and organization_hints[index] <> '' then
      select p.is_here into key.is_here from business_api.shard_places p
       where p.organization_id = organization_hints[index] order by p.version desc limit 1;
    end if;
    if key.is_here is false then
      perform business_api.reject_elsewhere(coalesce(key.organization_id, organization_hints[index]));
    end if;
    place := index;
    organization_id := key.organization_id;
    key_id := key.id;
    scopes := key.scopes;
    last_use_is_stale := key.last_use_is_stale;
    key_rate := key.per_second;
    key_burst := key.burst;
    own_rate := key.own_rate;
    own_burst := key.own_burst;
    key_full_in := key.key_full_at - at;
    organization_full_in := key.organization_full_at - at;
    tokens := 0;
    if wanted[index] = 0 or key_id is null then
      return next;
      continue;
    end if;

    rate := coalesce(key_rate, key_rates[index]);
    burst := coalesce(key_burst, key_bursts[index]);
    organization_rate := coalesce(own_rate, organization_rates[index]);
    organization_burst := coalesce(own_burst, organization_bursts[index]);
    key_limit_in := case when key_rate is null then 'infinity' else burst / rate + 0.01 end;
    organization_limit_in := case when own_rate is null then 'infinity' else organization_burst / organization_rate + 0.01 end;
    if (key_full_in > (burst - 1) / rate + 0.00001 or organization_full_in > (organization_burst - 1) / organization_rate + 0.00001)
      and key_full_in <= key_limit_in and organization_full_in <= organization_limit_in
    then
      return next;
      continue;
    end if;

    -- Same lock order as a deletion.
    if may_wait then
      if key_full_in is null or organization_full_in is null then
        insert into business_api.rate_buckets (organization_id, bucket, full_at)
        values (key.organization_id, key.id, 0), (key.organization_id, 'organization', 0)
            on conflict do nothing;
      end if;
      select b.full_at into key_full_at from business_api.rate_buckets b
       where b.organization_id = key.organization_id and b.bucket = key.id
         for no key update;
      select b.full_at into organization_full_at from business_api.rate_buckets b
       where b.organization_id = key.organization_id and b.bucket = 'organization'
         for no key update;
    else
      select b.full_at into key_full_at from business_api.rate_buckets b
       where b.organization_id = key.organization_id and b.bucket = key.id
         for no key update skip locked;
      if found then
        select b.full_at into organization_full_at from business_api.rate_buckets b
         where b.organization_id = key.organization_id and b.bucket = 'organization'
           for no key update skip locked;
      end if;
    end if;
    if not found then
      tokens := -1;
      return next;
      continue;
    end if;

    at := date_part('epoch', clock_timestamp());
    key_full_in := greatest(0, key_full_at - at);
    organization_full_in := greatest(0, organization_full_at - at);
    if key_full_in > key_limit_in then
      key_full_in := burst / rate;
    end if;
    if organization_full_in > organization_limit_in then
      organization_full_in := organization_burst / organization_rate;
    end if;
    -- Ten microseconds of tolerance for floating-point errors.
    tokens := greatest(0, least(
      wanted[index],
      floor(burst - (key_full_in - 0.00001) * rate),
      floor(organization_burst - (organization_full_in - 0.00001) * organization_rate)
    ));
    if tokens > 0 or key_full_at - at > key_limit_in or organization_full_at - at > organization_limit_in then
      key_full_in := key_full_in + tokens / rate;
      organization_full_in := organization_full_in + tokens / organization_rate;
      update business_api.rate_buckets b
         set full_at = at + case when b.bucket = 'organization' then organization_full_in else key_full_in end
       where b.organization_id = key.organization_id and b.bucket = any (array[key.id, 'organization']);
    end if;
    return next;
  end loop;
end
$$;
