-- The results of attempts, and their effects on deliveries, on the attempt log and on the health of endpoints.
-- Locks: nothing in use; every object is new.

-- Writes the results of attempts: see DeliveryStore.writeResults in lib/webhooks/deliveries.ts. Returns, as JSON, the results
-- whose claim was no longer in force, the endpoints with a failed attempt, and the deliveries that were dead-lettered. An
-- endpoint is judged failing or disabled under a lock on the endpoint's row, so that only one process sends the notice.
create function business_api.write_attempt_results(results jsonb, failure_limit integer, failing_ms double precision)
returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  at_time timestamptz := clock_timestamp();
  written text[];
  outcomes jsonb;
  dead_letters jsonb;
  endpoints jsonb;
  recalled jsonb;
  lost jsonb := '[]';
begin
  -- A result lost in a crash costs one more attempt.
  perform set_config('synchronous_commit', 'off', true);

  with result as (
    select * from jsonb_to_recordset(results) as r (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "isGone" boolean,
      "delayMs" double precision, "startedAgoMs" double precision, "endedAgoMs" double precision,
      "durationMs" real, "dnsMs" real, "connectMs" real, "tlsMs" real, "firstByteMs" real,
      status integer, error text, "bodyExcerpt" text
    )
  ), due_again as (
    update business_api.open_deliveries d
       set due_at = at_time + (r."delayMs" - r."endedAgoMs") * interval '1 millisecond',
           is_backing_off = r."delayMs" > 0,
           claim_token = null, claimed_at = null, lease_until = null
      from result r
     where r.outcome = 'retry'
       and d.organization_id = r."organizationId" and d.id = r."deliveryId" and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, d.event_id, d.type, d.created_at, d.is_backfill, r.*
  ), closed as (
    delete from business_api.open_deliveries d
     using result r
     where r.outcome <> 'retry'
       and d.organization_id = r."organizationId" and d.id = r."deliveryId" and d.claim_token = r.token
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
      status, error, body_excerpt
    )
    select e."organizationId", e."deliveryId", e.attempts,
           at_time - e."startedAgoMs" * interval '1 millisecond',
           e."durationMs", e."dnsMs", e."connectMs", e."tlsMs", e."firstByteMs", e.status, e.error, e."bodyExcerpt"
      from ended e
     -- Not `on conflict do nothing`, which writes 46 bytes more to the write-ahead log. No other transaction logs an attempt of this
     -- claim.
     where not exists (
       select 1 from business_api.delivery_attempts a
        where a.organization_id = e."organizationId" and a.delivery_id = e."deliveryId" and a.number = e.attempts
     )
  ), last_success as (
    select e."organizationId", e.endpoint_id, min(e."endedAgoMs") as ago_ms
      from ended e where e.outcome = 'delivered' group by 1, 2
  ), outcome as (
    -- For an endpoint's health only the failures after the last success among these results count.
    select e."organizationId" as organization_id, e.endpoint_id,
           bool_or(e.outcome = 'delivered') as has_success,
           bool_or(e.is_failure) as has_failure,
           bool_or(e."isGone") as is_gone,
           count(*) filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity')) as failures,
           max(e."endedAgoMs") filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity'))
             as first_failure_ago_ms,
           max(e.token || ' ' || e."deliveryId") filter (where e.is_failure) as failed_attempt
      from (
        -- An attempt that the process interrupted or never made proves nothing about the endpoint.
        select x.*, x.outcome <> 'delivered' and coalesce(x.error, '') not in ('interrupted', 'unreadable') as is_failure
          from ended x
      ) as e
      left join last_success s on s."organizationId" = e."organizationId" and s.endpoint_id = e.endpoint_id
     group by 1, 2
  ), dead_letter as (
    select e."organizationId", e.endpoint_id as "endpointId", e."deliveryId", e.event_id as "eventId", e.type, e.reason
      from ended e
     where e.outcome = 'dead_lettered'
  )
  select coalesce((select array_agg(e.token || ' ' || e."deliveryId") from ended e), '{}'),
         coalesce((select jsonb_agg(o) from outcome o), '[]'),
         coalesce((select jsonb_agg(l) from dead_letter l), '[]')
    into written, outcomes, dead_letters;

  with outcome as (
    -- Only outcomes that change an endpoint. A row that another transaction holds is skipped, because a wait would hold up the
    -- results of all other organizations, and a count may be a few failures short.
    select o.*, e.failures as failures_before, e.failing_since as failing_before, e.state as state_before,
           e.noticed_attempt as noticed_before, o.has_success or e.failing_since is null as is_new_streak
      from jsonb_to_recordset(outcomes) as o (
        organization_id text, endpoint_id text, has_success boolean, has_failure boolean, is_gone boolean,
        failures integer, first_failure_ago_ms double precision, failed_attempt text
      )
      join business_api.webhook_endpoints e on e.organization_id = o.organization_id and e.id = o.endpoint_id
     where (o.has_failure or e.failures > 0) and e.state <> 'removed'
       for no key update of e skip locked
  ), counted as (
    select o.*,
           case when o.has_success then o.failures else o.failures_before + o.failures end as failures_now,
           case
             when o.is_new_streak
             then at_time - o.first_failure_ago_ms * interval '1 millisecond'
             else o.failing_before
           end as failing_now
      from outcome o
  ), judged as (
    select c.*,
           c.state_before in ('enabled', 'paused') and (
             c.is_gone
             or c.failures_now >= failure_limit and c.failing_now <= at_time - failing_ms * interval '1 millisecond'
           ) as is_disabled_now
      from counted c
  ), noticed as (
    select j.*,
           not j.is_disabled_now and j.has_failure and j.state_before in ('enabled', 'paused')
             and j.failures_now * 2 >= failure_limit and (j.is_new_streak or j.noticed_before is null) as is_failing_now
      from judged j
  ), changed as (
    update business_api.webhook_endpoints e
       set failures = n.failures_now, failing_since = n.failing_now,
           state = case when n.is_disabled_now then 'disabled' else e.state end,
           disabled_reason = case
             when n.is_disabled_now then case when n.is_gone then 'gone' else 'failing' end
             else e.disabled_reason
           end,
           noticed_attempt = case
             when n.is_disabled_now or n.is_failing_now then n.failed_attempt
             when not n.is_new_streak then e.noticed_attempt
           end
      from noticed n
     where e.organization_id = n.organization_id and e.id = n.endpoint_id
    returning e.organization_id, e.id, e.state, e.disabled_reason, e.failures, e.failing_since,
              n.has_failure, n.is_failing_now, n.is_disabled_now
  )
  select coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', c.organization_id, 'endpointId', c.id, 'state', c.state, 'failures', c.failures,
           'failingSince', to_char(c.failing_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
           'disabledReason', c.disabled_reason,
           'isNewlyFailing', c.is_failing_now, 'isNewlyDisabled', c.is_disabled_now
         )) filter (where c.has_failure), '[]')
    into endpoints
    from changed c;

  if cardinality(written) < jsonb_array_length(results) then
    recalled := business_api.recall_attempt_results(results, written, failure_limit);
    endpoints := endpoints || (recalled -> 'endpoints');
    dead_letters := dead_letters || (recalled -> 'deadLetters');
    lost := recalled -> 'lost';
  end if;
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'deadLetters', dead_letters)::text;
end
$$;

-- Repeats the answer for results that an earlier call wrote, with an answer that was lost. A result that came too late is not
-- repeated: the delivery has ended in another way, or not at all, and no endpoint names the attempt. A result is lost if the log
-- of the delivery does not hold the attempt.
create function business_api.recall_attempt_results(results jsonb, written text[], failure_limit integer) returns jsonb
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  endpoints jsonb;
  dead_letters jsonb;
  lost jsonb;
begin
  select coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', r."organizationId", 'deliveryId', r."deliveryId", 'token', r.token
         )), '[]')
    into lost
    from jsonb_to_recordset($1) as r (
      "organizationId" text, "deliveryId" text, token text, "durationMs" real, status integer, error text
    )
   where r.token || ' ' || r."deliveryId" <> all ($2) and not exists (
     select 1 from business_api.delivery_attempts a
      where a.organization_id = r."organizationId" and a.delivery_id = r."deliveryId" and a.duration_ms = r."durationMs"
        and a.status is not distinct from r.status and a.error is not distinct from r.error
   );

  select coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', e.organization_id, 'endpointId', e.id, 'state', e.state, 'failures', e.failures,
           'failingSince', to_char(e.failing_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
           'disabledReason', e.disabled_reason,
           -- An administrator may have enabled or disabled the endpoint after the attempt.
           'isNewlyFailing', e.state <> 'disabled' and e.failures * 2 >= $3,
           'isNewlyDisabled', e.state = 'disabled' and e.disabled_reason <> 'administrator'
         )) filter (where e.id is not null), '[]'),
         coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', d.organization_id, 'endpointId', d.endpoint_id, 'deliveryId', d.id,
           'eventId', d.event_id, 'type', d.type, 'reason', d.reason
         )) filter (where d.state = 'dead_lettered' and r.outcome = 'dead_lettered' and d.reason = r.reason), '[]')
    into endpoints, dead_letters
    from jsonb_to_recordset($1) as r ("organizationId" text, "deliveryId" text, token text, outcome text, reason text)
    join lateral (
      select o.organization_id, o.id, o.event_id, o.type, o.endpoint_id, 'open' as state, null as reason
        from business_api.open_deliveries o
       where o.organization_id = r."organizationId" and o.id = r."deliveryId"
      union all
      select f.organization_id, f.id, f.event_id, f.type, f.endpoint_id, f.state, f.reason
        from business_api.finished_deliveries f
       where f.organization_id = r."organizationId" and f.id = r."deliveryId"
    ) as d on true
    left join business_api.webhook_endpoints e
      on e.organization_id = d.organization_id and e.id = d.endpoint_id and e.state <> 'removed'
     and e.noticed_attempt = r.token || ' ' || r."deliveryId"
   where r.token || ' ' || r."deliveryId" <> all ($2);
  return jsonb_build_object('lost', lost, 'endpoints', endpoints, 'deadLetters', dead_letters);
end
$$;
