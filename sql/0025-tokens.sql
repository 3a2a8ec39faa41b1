-- The tokens of requests: see lib/postgres/statements/admission.ts. 0010-rate-limits.sql has the buckets.
-- Locks: nothing in use; the function is new.

-- Takes the same number of tokens from both buckets. `key_full_in` and `organization_full_in` are the seconds until the buckets are
-- full, as the request's statement read them; the limits are those that apply, and `is_key_own` and `is_organization_own` mark
-- limits that the database holds, in place of the API's. More than one token, up to `wanted`, are at most 1/16 of what remains in
-- the scarcer bucket. Returns the number of tokens, 0 for a bucket that another request has emptied, with the time and the seconds
-- until the buckets are full. All are null if no bucket was locked: one is plainly empty, so that a flood over the limit waits for
-- no lock, or is missing. With `may_wait` false the number is -1, and the rest null, if another statement has locked a bucket: a
-- statement that judges the requests of several organizations waits for none of them.
--
-- A function, because the same steps in one statement take longer: PostgreSQL prepares every step of a statement for every request.
create function business_api.take_tokens(
  organization_id text,
  key_id text,
  key_full_in double precision,
  key_rate double precision,
  key_burst double precision,
  is_key_own boolean,
  organization_full_in double precision,
  organization_rate double precision,
  organization_burst double precision,
  is_organization_own boolean,
  wanted double precision,
  hold_seconds double precision,
  may_wait boolean,
  out tokens double precision,
  out at double precision,
  out key_full_after double precision,
  out organization_full_after double precision
)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  -- Seconds that a bucket takes to become full: from empty, and with a last token. Ten microseconds forgive the errors of floating
  -- point.
  key_empty_in double precision := key_burst / key_rate;
  organization_empty_in double precision := organization_burst / organization_rate;
  key_last_in double precision := (key_burst - 1) / key_rate + 0.00001;
  organization_last_in double precision := (organization_burst - 1) / organization_rate + 0.00001;
  -- A bucket that takes longer is more than empty, because the limit was raised or the clock went back, and becomes empty once.
  -- Not a bucket under the limits of an API: another API on the store may have lower limits, and must not find its bucket
  -- refilled. A hundredth of a second is more than the errors of floating point.
  key_limit_in double precision := case when is_key_own then key_empty_in + 0.01 else 'infinity' end;
  organization_limit_in double precision := case when is_organization_own then organization_empty_in + 0.01 else 'infinity' end;
  key_full_at double precision;
  organization_full_at double precision;
  becomes_empty boolean;
begin
  if (
    key_full_in <= key_last_in and organization_full_in <= organization_last_in
    or key_full_in > key_limit_in or organization_full_in > organization_limit_in
  ) is not true then
    return;
  end if;

  -- In the order of the names, so that no two requests can deadlock.
  if may_wait then
    select b.full_at into key_full_at from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = $2
       for no key update;
    select b.full_at into organization_full_at from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = 'organization'
       for no key update;
  else
    tokens := -1;
    select b.full_at into key_full_at from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = $2
       for no key update skip locked;
    if key_full_at is not null then
      select b.full_at into organization_full_at from business_api.rate_buckets b
       where b.organization_id = $1 and b.bucket = 'organization'
         for no key update skip locked;
    end if;
  end if;
  if key_full_at is null or organization_full_at is null then
    return;
  end if;

  at := date_part('epoch', clock_timestamp());
  becomes_empty := key_full_at - at > key_limit_in or organization_full_at - at > organization_limit_in;
  key_full_after := greatest(0, key_full_at - at);
  organization_full_after := greatest(0, organization_full_at - at);
  if is_key_own then
    key_full_after := least(key_full_after, key_empty_in);
  end if;
  if is_organization_own then
    organization_full_after := least(organization_full_after, organization_empty_in);
  end if;

  if key_full_after > key_last_in or organization_full_after > organization_last_in then
    tokens := 0;
  elsif wanted > 1
    -- While tokens are held, the bucket must not become full: a full bucket takes no refill, and the held tokens would be on top of
    -- its burst. A bucket that could become full counts as `hold_seconds` away from full, which costs the bucket its refill of that
    -- time; that must be next to nothing.
    and (key_full_after >= hold_seconds or key_empty_in >= 256 * hold_seconds)
    and (organization_full_after >= hold_seconds or organization_empty_in >= 256 * hold_seconds)
  then
    tokens := greatest(1, least(wanted, floor(least(
      key_burst - key_full_after * key_rate, organization_burst - organization_full_after * organization_rate
    ) / 16)));
    if tokens > 1 then
      key_full_after := greatest(key_full_after, hold_seconds);
      organization_full_after := greatest(organization_full_after, hold_seconds);
    end if;
  else
    tokens := 1;
  end if;

  key_full_after := key_full_after + tokens / key_rate;
  organization_full_after := organization_full_after + tokens / organization_rate;
  if tokens > 0 or becomes_empty then
    update business_api.rate_buckets b set full_at = at + key_full_after
     where b.organization_id = $1 and b.bucket = $2;
    update business_api.rate_buckets b set full_at = at + organization_full_after
     where b.organization_id = $1 and b.bucket = 'organization';
  end if;
end
$$;
