-- The rates of endpoints: those that were learned from rejections (429, 503, Retry-After), and those that organizations have set
-- (max_per_second). An endpoint without either has no row. The rules and their figures: see lib/webhooks/endpoint-rate.ts.
create table business_api.endpoint_rates (
  organization_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  -- Deliveries per second that the endpoint takes; null: not learned.
  rate double precision,
  -- The rate at the last rejection; null: the rate rises fast.
  ceiling double precision,
  raised_at timestamptz not null default '-infinity',
  -- The last rejection that counted, and the successes since. Results of attempts that began before it change nothing.
  rejected_at timestamptz not null default '-infinity',
  accepted integer not null default 0,
  -- The last wait, and the sum of all waits since the last success, in ms. The endpoint backs off while the sum is above 0.
  wait_ms double precision not null default 0,
  waited_ms double precision not null default 0,
  -- True: the endpoint has rejected for so long that its deliveries are attempted as if it had no rate, so that they end.
  is_down boolean not null default false,
  -- No delivery is claimed before this time.
  next_at timestamptz not null default '-infinity',
  -- The claim of the only delivery that is sent to an endpoint that backs off, and the end of its lease.
  probe_token text collate "C",
  probe_until timestamptz,
  constraint endpoint_rates_pkey primary key (organization_id, endpoint_id)
) with (fillfactor = 50);

-- Returns how many deliveries a claim may take of an endpoint with a rate, up to `budget`, and locks the rate. 0 while another claim
-- holds the lock, so that of several claims at once only one spends the rate.
create function business_api.rate_allowance(
  organization_id text, endpoint_id text, max_per_second double precision, budget integer, at_time timestamptz
) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  known record;
  per_second double precision;
begin
  if $3 is not null and not exists (
    select 1 from business_api.endpoint_rates r where r.organization_id = $1 and r.endpoint_id = $2
  ) then
    -- Two claims that insert the rates of two endpoints in different orders must not wait for each other.
    if not pg_try_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0)) then
      return 0;
    end if;
    insert into business_api.endpoint_rates (organization_id, endpoint_id) values ($1, $2) on conflict do nothing;
  end if;
  select r.* into known from business_api.endpoint_rates r where r.organization_id = $1 and r.endpoint_id = $2
     for no key update skip locked;
  if not found or known.next_at > $5 then
    return 0;
  elsif known.waited_ms > 0 and not known.is_down then
    return case when known.probe_until > $5 then 0 else least($4, 1) end;
  end if;
  per_second := least(case when not known.is_down then known.rate end, $3);
  return least($4, greatest(1, floor(per_second * 0.1)));
end
$$;

-- Spends the rates of endpoints for the deliveries that a claim has taken (`organizations`, `endpoints`): the next delivery waits for
-- its turn, or for the result of the probe. Returns the time in ms until the first delivery of these endpoints has its turn; null if
-- none is known.
create function business_api.spend_rates(
  limited_organizations text[], limited_endpoints text[], organizations text[], endpoints text[], token text, at_time timestamptz,
  lease_until timestamptz
) returns double precision
language plpgsql volatile
set search_path = ''
as $$
declare
  taken integer;
  turn_at timestamptz;
  first_at timestamptz;
begin
  for place in 1 .. cardinality(limited_endpoints) loop
    select count(*) into taken from unnest($3, $4) as claim (organization_id, endpoint_id)
     where claim.organization_id = $1[place] and claim.endpoint_id = $2[place];
    -- Only rates that this claim has locked are changed, so that no two claims wait for each other.
    if taken > 0 then
      update business_api.endpoint_rates r
         set next_at = case
               when r.waited_ms = 0 or r.is_down then coalesce(
                 $6 + taken / least(case when not r.is_down then r.rate end, e.max_per_second) * interval '1 second', r.next_at
               )
               else r.next_at
             end,
             probe_token = case when r.waited_ms > 0 then $5 else r.probe_token end,
             probe_until = case when r.waited_ms > 0 then $7 else r.probe_until end
        from business_api.webhook_endpoints e
       where r.organization_id = $1[place] and r.endpoint_id = $2[place]
         and e.organization_id = r.organization_id and e.id = r.endpoint_id;
    end if;
    select r.next_at into turn_at from business_api.endpoint_rates r
     where r.organization_id = $1[place] and r.endpoint_id = $2[place] and r.next_at > $6 and (r.waited_ms = 0 or r.is_down);
    first_at := least(first_at, turn_at);
  end loop;
  -- `greatest` passes over nulls.
  return case when first_at is not null then greatest(0, extract(epoch from first_at - clock_timestamp()) * 1000) end;
end
$$;

-- Judges the rate of an endpoint by results of attempts (`outcome`, see end_attempts). A result counts only if its attempt began
-- after the last rejection that counted, so a burst that was under way counts as one rejection. While the endpoint
-- backs off, only the probe fails.
create function business_api.judge_rate(organization_id text, outcome jsonb, at_time timestamptz) returns void
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  name text := outcome ->> 'endpoint_id';
  successes integer := outcome ->> 'successes';
  asked_ms double precision := (outcome ->> 'back_off_ms')::double precision;
  success_at timestamptz := $3 - (outcome ->> 'succeeded_ago_ms')::double precision * interval '1 millisecond';
  rejection_at timestamptz := $3 - (outcome ->> 'rejected_ago_ms')::double precision * interval '1 millisecond';
  failure_at timestamptz := $3 - (outcome ->> 'failed_ago_ms')::double precision * interval '1 millisecond';
  known business_api.endpoint_rates;
  is_probe boolean;
  seconds double precision;
  lower double precision;
begin
  if rejection_at is not null then
    perform pg_advisory_xact_lock(hashtextextended($1 || ' ' || name, 0));
    insert into business_api.endpoint_rates (organization_id, endpoint_id) values ($1, name) on conflict do nothing;
  end if;
  select r.* into known from business_api.endpoint_rates r where r.organization_id = $1 and r.endpoint_id = name
     for no key update;
  if not found or known.is_down and success_at is null or known.rate is null and known.waited_ms = 0 and rejection_at is null then
    return;
  end if;
  if success_at > known.rejected_at then
    known.accepted := known.accepted + successes;
    if known.waited_ms > 0 or known.is_down then
      known.rate := coalesce(known.rate, 0.8);
      known.waited_ms := 0;
      known.is_down := false;
      known.probe_until := null;
      known.next_at := $3 + interval '1 second' / known.rate;
    elsif known.ceiling is null then
      -- A time beyond half a minute is beyond every rate.
      seconds := least(30, extract(epoch from $3) - extract(epoch from known.raised_at));
      known.rate := known.rate * least(power(1.1, successes), power(2, seconds));
    else
      known.rate := known.rate * power(1.003, successes);
      known.ceiling := case when known.rate <= known.ceiling * 1.25 then known.ceiling end;
    end if;
    known.raised_at := $3;
    if known.rate >= 1000 then
      delete from business_api.endpoint_rates r where r.organization_id = $1 and r.endpoint_id = name;
      return;
    end if;
  end if;
  is_probe := known.probe_until is not null and outcome -> 'tokens' ? known.probe_token;
  -- An interrupted probe makes room for the next one.
  known.probe_until := case when not is_probe then known.probe_until end;
  if known.is_down then
    null;
  elsif known.waited_ms > 0 and is_probe and failure_at > known.rejected_at then
    if known.waited_ms >= 450000 then
      known.is_down := true;
      known.wait_ms := 1000;
      known.next_at := $3;
    else
      known.wait_ms := least(3600000, greatest(1000, asked_ms, least(2 * known.wait_ms, 450000 - known.waited_ms)));
      known.waited_ms := known.waited_ms + known.wait_ms;
      known.next_at := $3 + known.wait_ms * interval '1 millisecond';
    end if;
    known.rejected_at := $3;
  elsif known.waited_ms = 0 and rejection_at > known.rejected_at then
    if known.rate is not null then
      seconds := extract(epoch from $3) - extract(epoch from known.rejected_at);
      lower := known.rate * 0.75;
      known.ceiling := known.rate;
      known.rate := greatest(
        case when seconds <= 3 * known.wait_ms / 1000 then least(lower, known.accepted / seconds) else lower end,
        least(known.rate, 500 / known.wait_ms)
      );
    end if;
    -- The wait that was long enough the last time, but no longer than one delivery takes at the rate. `greatest` passes over nulls.
    known.wait_ms := least(3600000, greatest(
      1000, asked_ms, case when known.rate is not null then least(known.wait_ms, 1000 / known.rate) end
    ));
    known.waited_ms := known.wait_ms;
    known.rejected_at := $3;
    known.accepted := 0;
    known.next_at := $3 + known.wait_ms * interval '1 millisecond';
  elsif rejection_at is not null then
    known.next_at := greatest(known.next_at, $3 + least(3600000, asked_ms) * interval '1 millisecond');
  elsif failure_at is not null and known.waited_ms = 0 and known.rate is not null then
    -- Failures of another kind have no rate: an endpoint that only fails is not paced.
    known.is_down := exists (
      select 1 from business_api.webhook_endpoints e where e.organization_id = $1 and e.id = name and e.failures >= 10
    );
  end if;
  update business_api.endpoint_rates r
     set rate = known.rate, ceiling = known.ceiling, raised_at = known.raised_at, rejected_at = known.rejected_at,
         accepted = known.accepted, wait_ms = known.wait_ms, waited_ms = known.waited_ms, is_down = known.is_down,
         next_at = known.next_at, probe_until = known.probe_until
   where r.organization_id = $1 and r.endpoint_id = name;
end
$$;
