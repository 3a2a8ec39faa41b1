-- The results of attempts, and how they affect deliveries, the attempt log and endpoint health.

-- Ends attempts whose claims are active: finishes the deliveries at `places` or makes them due again, and logs the
-- attempts. A result whose claim is no longer active has no place. A delivery that another process has changed in the
-- meantime is at another place or has lost the token. Returns the results that were written (as token and delivery),
-- the outcomes by endpoint, the deliveries that failed, and the attempts.
create function business_api.end_attempts(
  results jsonb, places tid[], at_time timestamptz, out written text[], out outcomes jsonb, out failed jsonb,
  out attempts business_api.ended_attempt[]
)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_tidscan = on
as $$
begin
  with result as (
    select * from rows from (unnest(places), jsonb_to_recordset(results) as (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "isGone" boolean,
      "delayMs" double precision, "startedAgoMs" double precision, "endedAgoMs" double precision,
      "durationMs" real, "dnsMs" real, "connectMs" real, "tlsMs" real, "firstByteMs" real,
      status integer, error text, "bodyExcerpt" text, location text, headers jsonb, "backOffMs" double precision
    )) as r (place)
  ), due_again as (
    update business_api.open_deliveries d
       set due_at = at_time + (r."delayMs" - r."endedAgoMs") * interval '1 millisecond',
           is_backing_off = r."delayMs" > 0,
           claim_token = null, claimed_at = null, lease_until = null
      from result r
     where r.outcome = 'retry' and d.ctid = r.place and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill, r.*
  ), closed as (
    delete from business_api.open_deliveries d
     using result r
     where r.outcome <> 'retry' and d.ctid = r.place and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill, r.*
  ), finished as (
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
    select c."organizationId", c."deliveryId", c.event_id, c.type, c.endpoint_id, c.outcome, c.reason, c.created_at,
           at_time - c."endedAgoMs" * interval '1 millisecond', c.attempts, c.is_backfill
      from closed c
  ), ended as (
    select * from due_again
    union all
    select * from closed
  ), logged as (
    insert into business_api.delivery_attempts (
      organization_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, first_byte_ms,
      status, error, body_excerpt, location, headers
    )
    select e."organizationId", e."deliveryId", e.attempts,
           at_time - e."startedAgoMs" * interval '1 millisecond',
           e."durationMs", e."dnsMs", e."connectMs", e."tlsMs", e."firstByteMs", e.status, e.error, e."bodyExcerpt",
           e.location, e.headers
      from ended e
     -- An attempt can't be logged twice. The steps above have found the claim's token and removed it, a delivery only
     -- gets a new token along with the next number, and a released claim doesn't log anything.
  ), last_success as (
    select e."organizationId", e.endpoint_id, min(e."endedAgoMs") as ago_ms
      from ended e where e.outcome = 'delivered' group by 1, 2
  ), outcome as (
    -- For an endpoint's health, only failures after its last success in this batch count.
    select e."organizationId" as organization_id, e.endpoint_id,
           bool_or(e.outcome = 'delivered') as has_success,
           bool_or(e.is_failure) as has_failure,
           bool_or(e."isGone") as is_gone,
           count(*) filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity')) as failures,
           max(e."endedAgoMs") filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity'))
             as first_failure_ago_ms,
           max(e.token || ' ' || e."deliveryId") filter (where e.is_failure) as failed_attempt,
           -- For the endpoint's rate. See judge_rate.
           count(*) filter (where e.outcome = 'delivered') as successes,
           min(e."startedAgoMs") filter (where e.outcome = 'delivered') as succeeded_ago_ms,
           min(e."startedAgoMs") filter (where e."backOffMs" is not null) as rejected_ago_ms,
           max(e."backOffMs") as back_off_ms,
           array_agg(e.token) as tokens
      from (
        -- An attempt that was interrupted by the process or never made says nothing about the endpoint.
        select x.*, x.outcome <> 'delivered' and coalesce(x.error, '') not in ('interrupted', 'unreadable') as is_failure
          from ended x
      ) as e
      left join last_success s on s."organizationId" = e."organizationId" and s.endpoint_id = e.endpoint_id
     group by 1, 2
  ), failed_delivery as (
    select e."organizationId", e.endpoint_id as "endpointId", e."deliveryId", e.event_id as "eventId", e.type, e.reason
      from ended e
     where e.outcome = 'failed'
  )
  select coalesce((select array_agg(e.token || ' ' || e."deliveryId") from ended e), '{}'),
         coalesce((select jsonb_agg(o) from outcome o), '[]'),
         coalesce((select jsonb_agg(l) from failed_delivery l), '[]'),
         (
           select array_agg(row(
                    e."organizationId", e.endpoint_id, e.outcome, e.created_at, e."durationMs", e.status, e.error
                  )::business_api.ended_attempt)
             from ended e
         )
    into written, outcomes, failed, attempts;
end
$$;
select business_api.forbid_plans('end_attempts', 'enable_indexscan');

-- Updates an endpoint's failure count after a batch of attempts (`outcome`, see end_attempts) and decides whether it's
-- now failing or disabled. The endpoint's row is locked so that only one process sends the notice. If another
-- transaction holds the lock, the update is skipped, because waiting would hold up other results, and it's fine if the
-- count is off by a few failures. Returns an array with the endpoint if an attempt failed, otherwise an empty array.
create function business_api.judge_endpoint(
  organization_id text, outcome jsonb, at_time timestamptz, failure_limit integer, failing_ms double precision
) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  has_success boolean := outcome ->> 'has_success';
  has_failure boolean := outcome ->> 'has_failure';
  endpoint record;
  failures_now integer := outcome ->> 'failures';
  failing_now timestamptz;
  is_new_streak boolean;
  is_disabled_now boolean;
  is_failing_now boolean;
begin
  select e.id, e.state, e.failures, e.failing_since, e.disabled_reason, e.noticed_attempt into endpoint
    from business_api.webhook_endpoints e
   where e.organization_id = $1 and e.id = outcome ->> 'endpoint_id' and (has_failure or e.failures > 0) and e.state <> 'removed'
     for no key update skip locked;
  if not found then
    return '[]';
  end if;
  is_new_streak := has_success or endpoint.failing_since is null;
  if not has_success then
    failures_now := failures_now + endpoint.failures;
  end if;
  failing_now := case
    when is_new_streak then at_time - (outcome ->> 'first_failure_ago_ms')::double precision * interval '1 millisecond'
    else endpoint.failing_since
  end;
  is_disabled_now := coalesce(
    endpoint.state in ('enabled', 'paused') and (
      (outcome ->> 'is_gone')::boolean
      or failures_now >= failure_limit and failing_now <= at_time - failing_ms * interval '1 millisecond'
    ), false
  );
  is_failing_now := not is_disabled_now and has_failure and endpoint.state in ('enabled', 'paused')
    and failures_now * 2 >= failure_limit and (is_new_streak or endpoint.noticed_attempt is null);
  if is_disabled_now then
    endpoint.state := 'disabled';
    endpoint.disabled_reason := case when (outcome ->> 'is_gone')::boolean then 'gone' else 'failing' end;
  end if;
  endpoint.noticed_attempt := case
    when is_disabled_now or is_failing_now then outcome ->> 'failed_attempt'
    when not is_new_streak then endpoint.noticed_attempt
  end;
  update business_api.webhook_endpoints e
     set failures = failures_now, failing_since = failing_now, state = endpoint.state,
         disabled_reason = endpoint.disabled_reason, noticed_attempt = endpoint.noticed_attempt
   where e.organization_id = $1 and e.id = endpoint.id;
  if not has_failure then
    return '[]';
  end if;
  return jsonb_build_array(jsonb_build_object(
    'organizationId', $1, 'endpointId', endpoint.id, 'state', endpoint.state, 'failures', failures_now,
    'failingSince', to_char(failing_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'disabledReason', endpoint.disabled_reason, 'isNewlyFailing', is_failing_now, 'isNewlyDisabled', is_disabled_now
  ));
end
$$;

-- Repeats the report for results that were written by an earlier call whose report was lost. Late results aren't
-- repeated, because the delivery has ended differently or not at all, and no endpoint refers to the attempt. A result
-- is lost if the attempt isn't in the delivery's log.
create function business_api.recall_attempt_results(results jsonb, written text[], failure_limit integer) returns jsonb
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  result record;
  delivery record;
  endpoint record;
  endpoints jsonb := '[]';
  failed jsonb := '[]';
  lost jsonb := '[]';
begin
  for result in
    select * from jsonb_to_recordset(results) as r (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "durationMs" real, status integer, error text
    )
     where r.token || ' ' || r."deliveryId" <> all (written)
  loop
    if not exists (
      select 1 from business_api.delivery_attempts a
       where a.organization_id = result."organizationId" and a.delivery_id = result."deliveryId"
         and a.duration_ms = result."durationMs" and a.status is not distinct from result.status
         and a.error is not distinct from result.error
    ) then
      lost := lost || jsonb_build_object(
        'organizationId', result."organizationId", 'deliveryId', result."deliveryId", 'token', result.token
      );
    end if;
    select o.event_id, o.type, o.endpoint_id, 'open' as state, null as reason into delivery
      from business_api.open_deliveries o
     where o.organization_id = result."organizationId" and o.id = result."deliveryId";
    if not found then
      select f.event_id, f.type, f.endpoint_id, f.state, f.reason into delivery
        from business_api.finished_deliveries f
       where f.organization_id = result."organizationId" and f.id = result."deliveryId";
      continue when not found;
    end if;
    if delivery.state = 'failed' and result.outcome = 'failed' and delivery.reason = result.reason then
      failed := failed || jsonb_build_object(
        'organizationId', result."organizationId", 'endpointId', delivery.endpoint_id, 'deliveryId', result."deliveryId",
        'eventId', delivery.event_id, 'type', delivery.type, 'reason', delivery.reason
      );
    end if;
    select e.id, e.state, e.failures, e.failing_since, e.disabled_reason into endpoint
      from business_api.webhook_endpoints e
     where e.organization_id = result."organizationId" and e.id = delivery.endpoint_id and e.state <> 'removed'
       and e.noticed_attempt = result.token || ' ' || result."deliveryId";
    if found then
      endpoints := endpoints || jsonb_build_object(
        'organizationId', result."organizationId", 'endpointId', endpoint.id, 'state', endpoint.state,
        'failures', endpoint.failures,
        'failingSince', to_char(endpoint.failing_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'disabledReason', endpoint.disabled_reason,
        -- An administrator may have enabled or disabled the endpoint after the attempt.
        'isNewlyFailing', endpoint.state <> 'disabled' and endpoint.failures * 2 >= failure_limit,
        'isNewlyDisabled', endpoint.state = 'disabled' and endpoint.disabled_reason <> 'administrator'
      );
    end if;
  end loop;
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'failed', failed);
end
$$;
select business_api.forbid_plans('recall_attempt_results');

-- Updates endpoint health and builds the report for all results, including those written earlier. Returns a JSON object
-- with the results whose claim wasn't active anymore, the endpoints with a failed attempt, and the deliveries that
-- failed.
create function business_api.report_results(
  results jsonb, written text[], outcomes jsonb[], failed jsonb, at_time timestamptz, failure_limit integer,
  failing_ms double precision
) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  outcome jsonb;
  endpoints jsonb := '[]';
  recalled jsonb;
  lost jsonb := '[]';
begin
  foreach outcome in array outcomes loop
    endpoints := endpoints
      || business_api.judge_endpoint(outcome ->> 'organization_id', outcome, at_time, failure_limit, failing_ms);
  end loop;
  if cardinality(written) < jsonb_array_length(results) then
    recalled := business_api.recall_attempt_results(results, written, failure_limit);
    endpoints := endpoints || (recalled -> 'endpoints');
    failed := failed || (recalled -> 'failed');
    lost := recalled -> 'lost';
  end if;
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'failed', failed)::text;
end
$$;

-- Writes the results of attempts and returns their report. See ClaimStore.writeResults in lib/webhooks/claims.ts.
create function business_api.write_attempt_results(results jsonb, failure_limit integer, failing_ms double precision)
returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  at_time timestamptz := clock_timestamp();
  ended record;
  outcome jsonb;
begin
  -- A result that is lost in a crash just causes another attempt.
  perform set_config('synchronous_commit', 'off', true);
  select * into ended
    from business_api.end_attempts(results, array(
      select open.place
        from jsonb_to_recordset(results) as r ("organizationId" text, "deliveryId" text, token text)
        left join lateral (
          select d.ctid as place from business_api.open_deliveries d
           where d.organization_id = r."organizationId" and d.id = r."deliveryId" and d.claim_token = r.token
             -- If the organization has moved, its new shard also has the claim until the lease ends.
             and (
               select p.is_here from business_api.shard_places p
                where p.organization_id = r."organizationId" order by p.version desc limit 1
             ) is not false
           limit 1
        ) as open on true
    ), at_time);
  if ended.attempts is not null then
    perform business_api.count_activity(ended.attempts);
  end if;
  -- Sorted by key so two calls never wait for each other.
  for outcome in
    select o.value
      from jsonb_array_elements(ended.outcomes) as o
     where o.value ->> 'rejected_ago_ms' is not null or exists (
         select 1 from business_api.endpoint_rates r
          where r.organization_id = o.value ->> 'organization_id' and r.endpoint_id = o.value ->> 'endpoint_id'
       )
     order by (o.value ->> 'organization_id') collate "C", (o.value ->> 'endpoint_id') collate "C"
  loop
    perform business_api.judge_rate(outcome, at_time);
  end loop;
  return business_api.report_results(
    results, ended.written,
    -- Most endpoints are healthy and don't change.
    array(
      select o.value
        from jsonb_array_elements(ended.outcomes) as o
        cross join lateral (
          select 1 from business_api.webhook_endpoints e
           where e.organization_id = o.value ->> 'organization_id' and e.id = o.value ->> 'endpoint_id'
             and ((o.value ->> 'has_failure')::boolean or e.failures > 0)
           limit 1
        ) as changing
    ),
    ended.failed, at_time, failure_limit, failing_ms
  );
end
$$;
select business_api.forbid_plans('write_attempt_results');
