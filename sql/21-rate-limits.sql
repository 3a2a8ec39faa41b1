-- The rate limits. lib/postgres/statements/admission.ts has the statements that judge a request by its key and both limits.

-- The limits of single organizations, for all keys of the organization together, in place of the API's default.
create table business_api.organization_limits (
  organization_id text collate "C" not null,
  per_second double precision not null,
  burst integer not null,
  constraint organization_limits_pkey primary key (organization_id),
  constraint organization_limits_burst_check check (per_second > 0 and burst > 0)
);

-- A bucket is one number: the time at which the bucket will be full again (GCRA), in seconds since 1970. Besides, it counts the tokens
-- that processes have taken for requests to come, in two periods, until the last of each period are void (see take_tokens).
-- UNLOGGED, because a crash only refills the buckets, and a write-ahead record for every request would cost more than the request.
-- Half-empty pages keep the updates of hot rows on the same page.
create unlogged table business_api.rate_buckets (
  organization_id text collate "C" not null,
  bucket text collate "C" not null,
  full_at double precision not null,
  held double precision not null default 0,
  held_until double precision not null default 0,
  held_before double precision not null default 0,
  held_before_until double precision not null default 0,
  constraint rate_buckets_pkey primary key (organization_id, bucket)
) with (fillfactor = 50);

-- Returns the tokens of a bucket that processes may hold: taken for requests to come, and not void. Never too few: the tokens of a period
-- count until the last of them is void, and a token that comes back is subtracted from the earlier period first. A period ends when the
-- tokens of the period before are void.
create function business_api.held_tokens(
  held double precision,
  held_until double precision,
  held_before double precision,
  held_before_until double precision,
  at double precision
) returns double precision
language plpgsql immutable
as $$
begin
  return case when at < held_until then held else 0 end + case when at < held_before_until then held_before else 0 end;
end
$$;

-- Takes the same number of tokens from both buckets. `key_full_in` and `organization_full_in` are the seconds until the buckets are
-- full, as the request's statement read them; the limits are those that apply, and `is_key_own` and `is_organization_own` mark
-- limits that the database holds, in place of the API's. More than one token, up to `wanted`, are at most 1/16 of what remains in
-- the scarcer bucket; they are spent within `hold_seconds`, and void from `void_at` on. Returns the number of tokens, 0 for a bucket that
-- another request has emptied, with the time and the seconds until the buckets are full. All are null if no bucket was locked: one is
-- plainly empty, so that a flood over the limit waits for no lock, or is missing. With `may_wait` false the number is -1, and the rest
-- null, if another statement has locked a bucket: a statement that judges the requests of several organizations waits for none of them.
--
-- Held tokens never come on top of a bucket's burst. They would if the bucket became full meanwhile, because a full bucket takes no
-- refill. So a request that takes more than one token leaves the bucket so far from full that full_at >= void_at of the youngest tokens +
-- all held tokens / the rate. A request that spends a token, a token that is given back, and time leave that as it is. A bucket that is
-- nearly full loses some refill by it, 1/256 of its burst at most; where that is not enough, the request takes a single token.
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
  out void_at double precision,
  out key_full_after double precision,
  out organization_full_after double precision
)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
-- Not forbid_plans: the function runs for every request, has no joins, and pays for each setting.
set enable_seqscan = off
set jit = off
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
  key_bucket business_api.rate_buckets;
  organization_bucket business_api.rate_buckets;
  -- Tokens live as long as costs a bucket next to nothing, because a process or the network may stop for a while.
  live_seconds double precision := greatest(2 * hold_seconds, least(10, key_empty_in / 512, organization_empty_in / 512));
  -- Seconds from full that leave room for the tokens that are held.
  key_held_in double precision;
  organization_held_in double precision;
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
    select b.* into key_bucket from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = $2
       for no key update;
    select b.* into organization_bucket from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = 'organization'
       for no key update;
  else
    tokens := -1;
    select b.* into key_bucket from business_api.rate_buckets b
     where b.organization_id = $1 and b.bucket = $2
       for no key update skip locked;
    if key_bucket.full_at is not null then
      select b.* into organization_bucket from business_api.rate_buckets b
       where b.organization_id = $1 and b.bucket = 'organization'
         for no key update skip locked;
    end if;
  end if;
  if key_bucket.full_at is null or organization_bucket.full_at is null then
    return;
  end if;

  at := date_part('epoch', clock_timestamp());
  becomes_empty := key_bucket.full_at - at > key_limit_in or organization_bucket.full_at - at > organization_limit_in;
  key_full_after := greatest(0, key_bucket.full_at - at);
  organization_full_after := greatest(0, organization_bucket.full_at - at);
  if is_key_own then
    key_full_after := least(key_full_after, key_empty_in);
  end if;
  if is_organization_own then
    organization_full_after := least(organization_full_after, organization_empty_in);
  end if;

  if key_full_after > key_last_in or organization_full_after > organization_last_in then
    tokens := 0;
  elsif wanted > 1 then
    key_held_in := live_seconds + business_api.held_tokens(
      key_bucket.held, key_bucket.held_until, key_bucket.held_before, key_bucket.held_before_until, at
    ) / key_rate;
    organization_held_in := live_seconds + business_api.held_tokens(
      organization_bucket.held, organization_bucket.held_until,
      organization_bucket.held_before, organization_bucket.held_before_until, at
    ) / organization_rate;
    tokens := greatest(1, least(wanted, floor(least(
      key_burst - key_full_after * key_rate, organization_burst - organization_full_after * organization_rate
    ) / 16)));
    if key_held_in > greatest(key_full_after, key_empty_in / 256)
      or organization_held_in > greatest(organization_full_after, organization_empty_in / 256)
    then
      tokens := 1;
    elsif tokens > 1 then
      key_full_after := greatest(key_full_after, key_held_in);
      organization_full_after := greatest(organization_full_after, organization_held_in);
    end if;
  else
    tokens := 1;
  end if;

  key_full_after := key_full_after + tokens / key_rate;
  organization_full_after := organization_full_after + tokens / organization_rate;
  if tokens > 1 then
    void_at := at + live_seconds;
    update business_api.rate_buckets b
       set full_at = at + case when b.bucket = 'organization' then organization_full_after else key_full_after end,
           held = tokens + case when at < b.held_before_until then b.held else 0 end,
           held_until = greatest(void_at, case when at < b.held_before_until then b.held_until else 0 end),
           held_before = case when at < b.held_before_until then b.held_before else b.held end,
           held_before_until = case when at < b.held_before_until then b.held_before_until else b.held_until end
     where b.organization_id = $1 and b.bucket = any (array[$2, 'organization']);
  elsif tokens > 0 or becomes_empty then
    update business_api.rate_buckets b set full_at = at + key_full_after
     where b.organization_id = $1 and b.bucket = $2;
    update business_api.rate_buckets b set full_at = at + organization_full_after
     where b.organization_id = $1 and b.bucket = 'organization';
  end if;
end
$$;
