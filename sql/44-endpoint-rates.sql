-- Endpoint rates, learned from rejections (429, 503, Retry-After) or set by organizations (max_per_second). An endpoint
-- with neither has no row. For the rules and constants, see lib/webhooks/endpoint-rate.ts.
create table business_api.endpoint_rates (
  organization_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  -- Deliveries per second that the endpoint accepts, or null if we haven't learned that.
  rate double precision,
  -- The rate at the last rejection. If null, the rate increases quickly.
  ceiling double precision,
  -- When the last rejection was counted, and the number of successes since then. Attempts that started earlier don't
  -- count.
  rejected_at timestamptz not null default '-infinity',
  accepted integer not null default 0,
  -- The last wait and the sum of all waits since the last success, in ms. The endpoint is backing off while the sum is
  -- above 0. If it's infinite, the endpoint is down, and deliveries are attempted regardless of the rate so that they
  -- eventually fail.
  wait_ms double precision not null default 0,
  waited_ms double precision not null default 0,
  -- Nothing is claimed before this time.
  next_at timestamptz not null default '-infinity',
  -- The last probe, as a delivery and its claim. It lasts as long as the claim is active.
  probe_id text collate "C",
  probe_token text collate "C",
  constraint endpoint_rates_pkey primary key (organization_id, endpoint_id)
) with (fillfactor = 50);

-- Returns how many deliveries may be claimed for an endpoint with a rate, up to `budget`, and locks the rate. Returns 0
-- if another claim has the lock, so concurrent claims don't spend the same rate or wait for each other. `turn_at` is
-- when the next delivery or probe is due, or null if that's now.
create function business_api.rate_allowance(
  organization text, endpoint text, max_per_second double precision, budget integer, at_time timestamptz, out allowance integer,
  out turn_at timestamptz
)
language plpgsql volatile
set search_path = ''
as $$
declare
  known record;
begin
  allowance := 0;
  if max_per_second is not null and not exists (
    select 1 from business_api.endpoint_rates r where r.organization_id = organization and r.endpoint_id = endpoint
  ) then
    -- Two claims that insert the rates of two endpoints in a different order must not wait for each other.
    if not pg_try_advisory_xact_lock(hashtextextended(organization || ' ' || endpoint, 0)) then
      return;
    end if;
    insert into business_api.endpoint_rates (organization_id, endpoint_id) values (organization, endpoint) on conflict do nothing;
  end if;
  select r.* into known from business_api.endpoint_rates r where r.organization_id = organization and r.endpoint_id = endpoint
     for no key update skip locked;
  if not found then
    return;
  elsif known.next_at > at_time then
    turn_at := known.next_at;
  elsif known.waited_ms in (0, 'infinity') then
    allowance := least(budget, greatest(1, floor(
      coalesce(least(case when known.waited_ms = 0 then known.rate end, max_per_second), 'infinity') * 0.1
    )));
  elsif not exists (
    select 1 from business_api.open_deliveries d
     where d.organization_id = organization and d.id = known.probe_id and d.claim_token = known.probe_token
  ) then
    allowance := 1;
  end if;
end
$$;

-- Spends an endpoint's rate on claimed deliveries, after the claim has locked the rate. The next delivery has to wait
-- its turn or for the end of the probe. Returns the time of the next turn, or null after a probe.
create function business_api.spend_rate(
  organization text, endpoint text, max_per_second double precision, ids text[], token text, at_time timestamptz
) returns timestamptz
language sql volatile
set search_path = ''
as $$
  update business_api.endpoint_rates r
     set next_at = case when r.waited_ms in (0, 'infinity') then at_time + interval '1 second' * (
           cardinality(ids) / coalesce(least(case when r.waited_ms = 0 then r.rate end, max_per_second), 'infinity')
         ) else r.next_at end,
         probe_id = case when r.waited_ms in (0, 'infinity') then r.probe_id else ids[1] end,
         probe_token = case when r.waited_ms in (0, 'infinity') then r.probe_token else token end
   where r.organization_id = organization and r.endpoint_id = endpoint
  returning case when r.next_at > at_time then r.next_at end
$$;

-- Adjusts an endpoint's rate after a batch of attempts (`outcome`, see end_attempts). A result only counts if its
-- attempt started after the last counted rejection, so a burst of requests counts as one rejection. While the endpoint
-- is backing off, only a probe can fail.
create function business_api.judge_rate(outcome jsonb, at_time timestamptz) returns void
language plpgsql volatile
set search_path = ''
as $$
declare
  organization text := outcome ->> 'organization_id';
  endpoint text := outcome ->> 'endpoint_id';
  successes integer := outcome ->> 'successes';
  asked_ms double precision := outcome ->> 'back_off_ms';
  success_at timestamptz := at_time - (outcome ->> 'succeeded_ago_ms')::double precision * interval '1 millisecond';
  rejection_at timestamptz := at_time - (outcome ->> 'rejected_ago_ms')::double precision * interval '1 millisecond';
  limits record;
  known business_api.endpoint_rates;
  has_failure boolean := outcome ->> 'has_failure';
  seconds double precision;
begin
  if rejection_at is not null then
    perform pg_advisory_xact_lock(hashtextextended(organization || ' ' || endpoint, 0));
    insert into business_api.endpoint_rates (organization_id, endpoint_id) values (organization, endpoint) on conflict do nothing;
  end if;
  select r.* into known from business_api.endpoint_rates r where r.organization_id = organization and r.endpoint_id = endpoint
     for no key update;
  if not found or known.waited_ms = 'infinity' and success_at is null or known.rate is null and known.waited_ms = 0 and rejection_at is null then
    return;
  end if;
  select e.max_per_second, e.failures into limits from business_api.webhook_endpoints e
   where e.organization_id = organization and e.id = endpoint;
  if success_at > known.rejected_at then
    known.accepted := known.accepted + successes;
    if known.waited_ms > 0 then
      known.rate := coalesce(known.rate, 0.8);
      known.waited_ms := 0;
      known.next_at := at_time + interval '1 second' / known.rate;
    elsif known.next_at > at_time and exists (
      select 1 from business_api.open_deliveries d
       where d.organization_id = organization and d.endpoint_id = endpoint and d.claim_token is null and not d.is_backing_off
    ) then
      known.rate := known.rate
        + successes * case when known.ceiling is null then least(0.1 * known.rate, 0.7) else 0.003 * known.rate end;
      known.ceiling := case when known.rate <= known.ceiling * 1.25 then known.ceiling end;
    end if;
    if limits.max_per_second is null and known.rate >= 1000 then
      delete from business_api.endpoint_rates r where r.organization_id = organization and r.endpoint_id = endpoint;
      return;
    end if;
    known.rate := case when known.rate is not null then least(known.rate, limits.max_per_second) end;
  end if;
  if known.waited_ms = 'infinity' then
    null;
  elsif known.waited_ms > 0 and has_failure and outcome -> 'tokens' ? known.probe_token then
    if known.waited_ms >= 450000 then
      known.waited_ms := 'infinity';
      known.wait_ms := 1000;
      known.next_at := at_time;
    else
      known.wait_ms := least(3600000, greatest(1000, asked_ms, least(2 * known.wait_ms, 450000 - known.waited_ms)));
      known.waited_ms := known.waited_ms + known.wait_ms;
      known.next_at := at_time + known.wait_ms * interval '1 millisecond';
    end if;
    known.rejected_at := at_time;
  elsif known.waited_ms = 0 and rejection_at > known.rejected_at then
    if known.rate is not null then
      seconds := extract(epoch from at_time) - extract(epoch from known.rejected_at);
      known.ceiling := known.rate;
      -- `least` ignores nulls.
      known.rate := greatest(
        least(known.rate * 0.75, case when seconds <= 3 * known.wait_ms / 1000 then known.accepted / seconds end),
        least(known.rate, 500 / known.wait_ms)
      );
    end if;
    -- Slightly less than the last wait that was long enough, but no longer than a delivery takes at the current rate.
    -- `greatest` ignores nulls.
    known.wait_ms := least(3600000, greatest(
      1000, asked_ms, case when known.rate is not null then least(known.wait_ms * 0.7, 1000 / known.rate) end
    ));
    known.waited_ms := known.wait_ms;
    known.rejected_at := at_time;
    known.accepted := 0;
    known.next_at := at_time + known.wait_ms * interval '1 millisecond';
  elsif rejection_at is not null then
    known.next_at := greatest(known.next_at, at_time + least(3600000, asked_ms) * interval '1 millisecond');
  elsif has_failure and known.waited_ms = 0 and known.rate is not null then
    -- Other failures don't create a rate, because there's no point in slowing down an endpoint that just fails.
    known.waited_ms := case when limits.failures >= 10 then 'infinity'::double precision else 0 end;
  end if;
  update business_api.endpoint_rates r
     set (rate, ceiling, rejected_at, accepted, wait_ms, waited_ms, next_at) =
           (known.rate, known.ceiling, known.rejected_at, known.accepted, known.wait_ms, known.waited_ms, known.next_at)
   where r.organization_id = organization and r.endpoint_id = endpoint;
end
$$;
