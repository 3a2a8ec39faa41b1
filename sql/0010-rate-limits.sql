-- The rate limits, and the function that admits a request by its key and both limits.
-- Locks: nothing in use; every object is new.

-- The limits of single organizations, for all keys of the organization together, in place of the API's default.
create table business_api.organization_limits (
  organization_id text collate "C" not null,
  per_second double precision not null,
  burst integer not null,
  constraint organization_limits_pkey primary key (organization_id),
  constraint organization_limits_burst_check check (per_second > 0 and burst > 0)
);

-- A bucket is one number: the time at which the bucket will be full again (GCRA), in seconds since 1970. UNLOGGED, because a
-- crash only refills the buckets, and a write-ahead record for every request would cost more than the request. Half-empty pages
-- keep the updates of hot rows on the same page.
create unlogged table business_api.rate_buckets (
  organization_id text collate "C" not null,
  bucket text collate "C" not null,
  full_at double precision not null,
  constraint rate_buckets_pkey primary key (organization_id, bucket)
) with (fillfactor = 50);

-- Judges a request by the key, both rate limits and the scope, in that order, by the database's clock, in one atomic step.
-- Limits that are null take no token. Returns the verdict as JSON text and, for an admitted request only, the given page. The
-- caller reads the page before the call: both bucket rows stay locked until the statement ends, and if the page were read
-- meanwhile, requests of one organization would queue.
create function business_api.admit(
  digest text,
  scope text,
  key_per_second double precision,
  key_burst integer,
  organization_per_second double precision,
  organization_burst integer,
  page text default null
) returns table (admission text, admitted_page text)
language plpgsql volatile
set search_path = ''
set lock_timeout = '4s'
as $$
#variable_conflict use_column
declare
  at_time timestamptz := clock_timestamp();
  caller record;
  now_seconds double precision;
  key_full_at double precision;
  organization_full_at double precision;
  key_after double precision;
  organization_after double precision;
  wait_seconds double precision := 0;
  rate_limit json;
begin
  select k.organization_id, k.id,
         $2 = any (k.scopes) as has_scope,
         coalesce(k.per_second, $3) as key_rate, coalesce(k.burst, $4) as key_burst,
         coalesce(o.per_second, $5) as organization_rate, coalesce(o.burst, $6) as organization_burst,
         k.last_used_at is null or k.last_used_at < at_time - interval '1 minute' as last_use_is_stale
    into caller
    from business_api.api_keys k
    left join business_api.organization_limits o on o.organization_id = k.organization_id
   where k.digest = $1
     and (k.revoked_at is null or k.revoked_at > at_time)
     and (k.expires_at is null or k.expires_at > at_time);
  if not found then
    return query select '{"outcome":"unauthenticated"}', null::text;
    return;
  end if;

  if $3 is not null then
    -- The key's row always comes before the organization's row, also on insertion, so that no two requests deadlock.
    for attempt in 1..3 loop
      select b.full_at into key_full_at from business_api.rate_buckets b
       where b.organization_id = caller.organization_id and b.bucket = caller.id for no key update;
      exit when found;
      insert into business_api.rate_buckets (organization_id, bucket, full_at)
      values (caller.organization_id, caller.id, 0) on conflict do nothing;
    end loop;
    for attempt in 1..3 loop
      select b.full_at into organization_full_at from business_api.rate_buckets b
       where b.organization_id = caller.organization_id and b.bucket = 'organization' for no key update;
      exit when found;
      insert into business_api.rate_buckets (organization_id, bucket, full_at)
      values (caller.organization_id, 'organization', 0) on conflict do nothing;
    end loop;

    if key_full_at is null or organization_full_at is null then
      raise exception 'Cannot take a token because business_api.rate_buckets does not keep its rows';
    end if;

    -- The clock is read again after a possible wait for the locks. A bucket is never more than empty, so that a raised limit
    -- counts at once.
    now_seconds := extract(epoch from clock_timestamp());
    key_full_at := least(key_full_at, now_seconds + caller.key_burst / caller.key_rate);
    organization_full_at := least(
      organization_full_at, now_seconds + caller.organization_burst / caller.organization_rate
    );
    key_after := greatest(key_full_at, now_seconds) + 1 / caller.key_rate;
    organization_after := greatest(organization_full_at, now_seconds) + 1 / caller.organization_rate;
    wait_seconds := greatest(
      key_after - now_seconds - caller.key_burst / caller.key_rate,
      organization_after - now_seconds - caller.organization_burst / caller.organization_rate
    );
    -- Ten microseconds forgive the errors of floating point; otherwise a full bucket can refuse its last token.
    if wait_seconds <= 0.00001 then
      wait_seconds := 0;
      update business_api.rate_buckets b
         set full_at = case when b.bucket = caller.id then key_after else organization_after end
       where b.organization_id = caller.organization_id and b.bucket in (caller.id, 'organization');
      key_full_at := key_after;
      organization_full_at := organization_after;
    end if;

    rate_limit := json_build_object(
      'key', business_api.describe_bucket(key_full_at - now_seconds, caller.key_rate, caller.key_burst),
      'organization', business_api.describe_bucket(
        organization_full_at - now_seconds, caller.organization_rate, caller.organization_burst
      ),
      'retryAfterMs', wait_seconds * 1000
    );
  end if;

  return query select
    json_build_object(
      'outcome', case when wait_seconds > 0 then 'limited' when caller.has_scope then 'admitted' else 'forbidden' end,
      'caller', json_build_object('organizationId', caller.organization_id, 'keyId', caller.id),
      'rateLimit', rate_limit,
      'lastUseIsStale', caller.last_use_is_stale
    )::text,
    case when wait_seconds = 0 and caller.has_scope then $7 end;
end
$$;

-- Finds the organization whose page is worth reading for a request. Returns null for a key that is not in force or lacks the
-- scope, and while a bucket is clearly empty, so that a flood of requests reads no pages. The function takes no locks and decides
-- nothing: `admit` decides, and if `admit` admits the request after all, a second statement reads the page.
create function business_api.likely_organization(
  digest text,
  scope text,
  key_per_second double precision,
  key_burst integer,
  organization_per_second double precision,
  organization_burst integer
) returns text
language sql stable
set search_path = ''
as $$
  select k.organization_id
    from business_api.api_keys k
    left join business_api.organization_limits o on o.organization_id = k.organization_id
   where k.digest = $1
     and $2 = any (k.scopes)
     and (k.revoked_at is null or k.revoked_at > now())
     and (k.expires_at is null or k.expires_at > now())
     and ($3 is null or not exists (
       select 1 from business_api.rate_buckets b
        where b.organization_id = k.organization_id
          and b.bucket in (k.id, 'organization')
          and b.full_at - extract(epoch from now()) > case
            when b.bucket = k.id then (coalesce(k.burst, $4) - 0.5) / coalesce(k.per_second, $3)
            else (coalesce(o.burst, $6) - 0.5) / coalesce(o.per_second, $5)
          end
     ))
$$;

-- Describes a bucket for the rate-limit headers of a response.
create function business_api.describe_bucket(full_in double precision, per_second double precision, burst integer)
returns json
language sql stable
set search_path = ''
as $$
  select json_build_object(
    'perSecond', per_second,
    'burst', burst,
    'remaining', greatest(0, burst - ceil(greatest(0, full_in) * per_second - 0.001)),
    'resetMs', greatest(0, full_in) * 1000
  )
$$;
