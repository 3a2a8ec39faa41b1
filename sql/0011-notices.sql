-- What the host is told: see lib/notices.ts. The answers to a claim and to a record say what is news in them, and an
-- expiry is given to one process only.

alter table business_api.webhook_endpoints
  -- The attempt whose result has made it failing or disabled it, so that the answer can be given again when it was lost.
  add column noticed_attempt text collate "C",
  -- Of the secret of before: which expiry was given last, and to whom. Another expiry is news by itself.
  add column secret_expiry_noticed timestamptz,
  add column secret_expiry_noticed_by text collate "C";

alter table business_api.api_keys
  add column expiry_noticed timestamptz,
  add column expiry_noticed_by text collate "C";

create index webhook_endpoints_previous_secret_expires_at_idx
  on business_api.webhook_endpoints (previous_secret_expires_at) where previous_secret_expires_at is not null;
create index api_keys_expires_at_idx on business_api.api_keys (expires_at) where expires_at is not null;

-- As in 0009, but it tells which deliveries were dead-lettered.
drop function business_api.end_leases(integer);
create function business_api.end_leases(max_attempts integer) returns json
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  at_time timestamptz := clock_timestamp();
  dead_letters json;
begin
  with ended as (
    select d.organization_id, d.id, d.claimed_at, d.lease_until, d.attempts - d.attempts_before >= $1 as was_last
      from business_api.deliveries d
     where d.state = 'in_flight' and d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  ), freed as (
    update business_api.deliveries d
       set state = case when ended.was_last then 'dead_lettered' else 'pending' end,
           reason = case when ended.was_last then 'interrupted' end,
           finished_at = case when ended.was_last then at_time end,
           due_at = at_time,
           claim_token = null, lease_until = null
      from ended
     where d.organization_id = ended.organization_id and d.id = ended.id
    returning d.organization_id, d.id, d.endpoint_id, d.event_id, d.attempts, d.reason,
              ended.claimed_at, ended.lease_until, ended.was_last
  ), logged as (
    insert into business_api.delivery_attempts
      (organization_id, delivery_id, number, started_at, duration_ms, error, body_excerpt)
    select f.organization_id, f.id, f.attempts, f.claimed_at,
           extract(epoch from f.lease_until - f.claimed_at) * 1000, 'interrupted', ''
      from freed f
    on conflict do nothing
  )
  select coalesce(json_agg(json_build_object(
           'organizationId', f.organization_id, 'endpointId', f.endpoint_id, 'deliveryId', f.id,
           'eventId', f.event_id, 'type', event.type, 'reason', f.reason
         )), '[]')
    into dead_letters
    from freed f
    join business_api.events event on event.organization_id = f.organization_id and event.id = f.event_id
   where f.was_last;
  return dead_letters;
end
$$;

-- As in 0009, but it tells which deliveries it has dead-lettered.
create or replace function business_api.claim_deliveries(
  token text,
  is_repeat boolean,
  claim_limit integer,
  visits integer,
  after_organization text,
  after_endpoint text,
  lease_ms double precision,
  max_attempts integer,
  endpoint_room integer,
  organization_room integer,
  endpoint_rooms jsonb,
  organization_rooms jsonb
) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  at_time timestamptz;
  -- What is claimed, those of a repeated claim first.
  organizations text[] := '{}';
  ids text[] := '{}';
  repeated integer := 0;
  repeated_endpoints text[] := '{}';
  claimed integer := 0;
  found_ids text[];
  here_organization text := coalesce(after_organization, '');
  here_endpoint text := coalesce(after_endpoint, '');
  next_organization text;
  next_endpoint text;
  endpoint_state text;
  room integer;
  visited integer := 0;
  has_wrapped boolean := after_organization is null;
  is_complete boolean := false;
  dead_letters json := '[]';
  answer text;
begin
  perform set_config('synchronous_commit', 'off', true);
  at_time := clock_timestamp();
  if exists (select from business_api.deliveries d where d.state = 'in_flight' and d.lease_until <= at_time) then
    dead_letters := business_api.end_leases(max_attempts);
    at_time := clock_timestamp();
  end if;
  if exists (
    select from business_api.deliveries d where d.state = 'pending' and d.is_waiting and d.due_at <= at_time
  ) then
    perform business_api.end_waits(at_time);
  end if;

  if is_repeat then
    select coalesce(array_agg(d.organization_id order by d.id), '{}'), coalesce(array_agg(d.id order by d.id), '{}'),
           coalesce(array_agg(d.endpoint_id), '{}')
      into organizations, ids, repeated_endpoints
      from business_api.deliveries d
     where d.state = 'in_flight' and d.lease_until > at_time and d.claim_token = $1;
    repeated := cardinality(ids);
    claimed := repeated;
  end if;

  while claimed < claim_limit and visited < visits loop
    select d.organization_id, d.endpoint_id into next_organization, next_endpoint
      from business_api.deliveries d
     where d.state = 'pending' and not d.is_waiting
       and (d.organization_id, d.endpoint_id) > (here_organization, here_endpoint)
     order by d.organization_id, d.endpoint_id
     limit 1;
    if not found then
      is_complete := has_wrapped;
      exit when has_wrapped;
      has_wrapped := true;
      here_organization := '';
      here_endpoint := '';
      continue;
    end if;
    if has_wrapped and after_organization is not null
       and (next_organization, next_endpoint) > (after_organization, after_endpoint) then
      is_complete := true;
      exit;
    end if;
    here_organization := next_organization;
    here_endpoint := next_endpoint;
    visited := visited + 1;

    select e.state into endpoint_state from business_api.webhook_endpoints e
     where e.organization_id = here_organization and e.id = here_endpoint;
    if endpoint_state = 'paused' then
      continue;
    elsif endpoint_state is distinct from 'enabled' then
      perform business_api.skip_pending(here_organization, here_endpoint);
      continue;
    end if;

    room := least(
      claim_limit - claimed,
      coalesce((endpoint_rooms ->> here_endpoint)::integer, endpoint_room)
        - coalesce(cardinality(array_positions(repeated_endpoints, here_endpoint)), 0),
      coalesce((organization_rooms ->> here_organization)::integer, organization_room)
        - coalesce(cardinality(array_positions(organizations, here_organization)), 0)
    );
    -- Two statements: in one, the retries that are not due yet would all be read.
    if room > 0 then
      found_ids := array(
        select d.id from business_api.deliveries d
         where d.state = 'pending' and not d.is_waiting
           and d.organization_id = here_organization and d.endpoint_id = here_endpoint
           and not d.is_retry and d.due_at <= at_time
         order by d.due_at limit room for update skip locked
      );
      room := room - cardinality(found_ids);
      if room > 0 then
        found_ids := found_ids || array(
          select d.id from business_api.deliveries d
           where d.state = 'pending' and not d.is_waiting
             and d.organization_id = here_organization and d.endpoint_id = here_endpoint
             and d.is_retry and d.due_at <= at_time
           order by d.due_at limit room for update skip locked
        );
      end if;
      ids := ids || found_ids;
      organizations := organizations || array_fill(here_organization, array[cardinality(found_ids)]);
      claimed := cardinality(ids);
    end if;
  end loop;

  update business_api.deliveries d
     set state = 'in_flight', attempts = d.attempts + 1, claim_token = $1, claimed_at = at_time,
         lease_until = at_time + lease_ms * interval '1 millisecond'
    from unnest(organizations[repeated + 1:], ids[repeated + 1:]) as claim (organization_id, id)
   where d.organization_id = claim.organization_id and d.id = claim.id;

  select json_build_object(
    'deliveries', coalesce(json_agg(
      json_build_object(
        'organizationId', d.organization_id, 'id', d.id, 'endpointId', d.endpoint_id, 'eventId', d.event_id,
        'type', event.type, 'body', event.body, 'url', endpoint.url, 'headers', endpoint.headers,
        'sealedSecrets', case
          when endpoint.previous_secret_expires_at > at_time
          then json_build_array(endpoint.sealed_secret, endpoint.previous_sealed_secret)
          else json_build_array(endpoint.sealed_secret)
        end,
        'attempt', d.attempts - d.attempts_before
      )
      order by claim.place
    ), '[]'),
    'deadLetters', dead_letters,
    'storeTime', extract(epoch from clock_timestamp()) * 1000,
    'next', case when not is_complete
      then json_build_object('organizationId', here_organization, 'endpointId', here_endpoint)
    end
  )::text
    into answer
    from unnest(organizations, ids) with ordinality as claim (organization_id, id, place)
    join business_api.deliveries d on d.organization_id = claim.organization_id and d.id = claim.id
    join business_api.events event on event.organization_id = d.organization_id and event.id = d.event_id
    join business_api.webhook_endpoints endpoint
      -- One that has been removed has no secret to sign with any more.
      on endpoint.organization_id = d.organization_id and endpoint.id = d.endpoint_id and endpoint.state <> 'removed';
  return answer;
end
$$;

-- What results have brought about that were recorded before, as the answer of then was lost. A result that came too late
-- is none of these: its delivery has come to another end, or to none, and no endpoint names its attempt.
create function business_api.recall_attempts(results jsonb, recorded text[], failure_limit integer) returns jsonb
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
begin
  select coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', e.organization_id, 'endpointId', e.id, 'state', e.state, 'failures', e.failures,
           'failingSince', to_char(e.failing_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
           'disabledReason', e.disabled_reason,
           -- An administrator may have enabled or disabled it since.
           'isNewlyFailing', e.state <> 'disabled' and e.failures * 2 >= $3,
           'isNewlyDisabled', e.state = 'disabled' and e.disabled_reason <> 'administrator'
         )) filter (where e.id is not null), '[]'),
         coalesce(jsonb_agg(jsonb_build_object(
           'organizationId', d.organization_id, 'endpointId', d.endpoint_id, 'deliveryId', d.id,
           'eventId', d.event_id, 'type', event.type, 'reason', d.reason
         )) filter (where d.state = 'dead_lettered' and r.outcome = 'dead_lettered' and d.reason = r.reason), '[]')
    into endpoints, dead_letters
    from jsonb_to_recordset($1) as r ("organizationId" text, "deliveryId" text, token text, outcome text, reason text)
    join business_api.deliveries d on d.organization_id = r."organizationId" and d.id = r."deliveryId"
    join business_api.events event on event.organization_id = d.organization_id and event.id = d.event_id
    left join business_api.webhook_endpoints e
      on e.organization_id = d.organization_id and e.id = d.endpoint_id and e.state <> 'removed'
     and e.noticed_attempt = r.token || ' ' || r."deliveryId"
   where r."deliveryId" <> all ($2);
  return jsonb_build_object('endpoints', endpoints, 'deadLetters', dead_letters);
end
$$;

-- As in 0009, but it tells what is news: which deliveries were dead-lettered, and which endpoints the results have made
-- failing or disabled. That is judged while the endpoint's row is locked, so that it is said to one process only.
create or replace function business_api.record_attempts(results jsonb, failure_limit integer, failing_ms double precision)
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
  recorded text[];
  outcomes jsonb;
  dead_letters jsonb;
  endpoints jsonb;
  recalled jsonb;
begin
  -- A record lost in a crash is an attempt made once more.
  perform set_config('synchronous_commit', 'off', true);

  with result as (
    select * from jsonb_to_recordset(results) as r (
      "organizationId" text, "deliveryId" text, token text, outcome text, reason text, "isGone" boolean,
      "delayMs" double precision, "startedAgoMs" double precision, "endedAgoMs" double precision,
      "durationMs" real, "dnsMs" real, "connectMs" real, "tlsMs" real, "firstByteMs" real,
      status integer, error text, "bodyExcerpt" text
    )
  ), ended as (
    update business_api.deliveries d
       set state = case r.outcome when 'retry' then 'pending' else r.outcome end,
           due_at = case r.outcome
             when 'retry' then at_time + (r."delayMs" - r."endedAgoMs") * interval '1 millisecond'
             else d.due_at
           end,
           finished_at = case when r.outcome <> 'retry' then at_time - r."endedAgoMs" * interval '1 millisecond' end,
           is_waiting = r.outcome = 'retry' and r."delayMs" > 0,
           reason = r.reason,
           claim_token = null, lease_until = null
      from result r
     where d.organization_id = r."organizationId" and d.id = r."deliveryId" and d.claim_token = r.token
    returning d.attempts, d.endpoint_id, d.event_id, r.*
  ), logged as (
    insert into business_api.delivery_attempts (
      organization_id, delivery_id, number, started_at, duration_ms, dns_ms, connect_ms, tls_ms, first_byte_ms,
      status, error, body_excerpt
    )
    select e."organizationId", e."deliveryId", e.attempts,
           at_time - e."startedAgoMs" * interval '1 millisecond',
           e."durationMs", e."dnsMs", e."connectMs", e."tlsMs", e."firstByteMs", e.status, e.error, e."bodyExcerpt"
      from ended e
    on conflict do nothing
  ), last_success as (
    select e."organizationId", e.endpoint_id, min(e."endedAgoMs") as ago_ms
      from ended e where e.outcome = 'delivered' group by 1, 2
  ), outcome as (
    -- What of it counts for the endpoints: the failures since the last success among these results.
    select e."organizationId" as organization_id, e.endpoint_id,
           bool_or(e.outcome = 'delivered') as has_success,
           bool_or(e.is_failure) as has_failure,
           bool_or(e."isGone") as is_gone,
           count(*) filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity')) as failures,
           max(e."endedAgoMs") filter (where e.is_failure and e."endedAgoMs" < coalesce(s.ago_ms, 'infinity'))
             as first_failure_ago_ms,
           max(e.token || ' ' || e."deliveryId") filter (where e.is_failure) as failed_attempt
      from (
        -- An attempt that this side has interrupted says nothing of the endpoint.
        select x.*, x.outcome <> 'delivered' and x.error is distinct from 'interrupted' as is_failure from ended x
      ) as e
      left join last_success s on s."organizationId" = e."organizationId" and s.endpoint_id = e.endpoint_id
     group by 1, 2
  ), dead_letter as (
    select e."organizationId", e.endpoint_id as "endpointId", e."deliveryId", e.event_id as "eventId", event.type, e.reason
      from ended e
      join business_api.events event on event.organization_id = e."organizationId" and event.id = e.event_id
     where e.outcome = 'dead_lettered'
  )
  select coalesce((select array_agg(e."deliveryId") from ended e), '{}'),
         coalesce((select jsonb_agg(o) from outcome o), '[]'),
         coalesce((select jsonb_agg(l) from dead_letter l), '[]')
    into recorded, outcomes, dead_letters;

  with outcome as (
    -- Only what changes something, and never waiting for a row that somebody else holds: it would hold up the records of
    -- all other organizations, and a count may be short by some.
    select o.*, e.failures as failures_before, e.failing_since as failing_before, e.state as state_before,
           e.noticed_attempt as noticed_before, o.has_success or e.failing_since is null as is_new_row
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
             when o.is_new_row
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
             and j.failures_now * 2 >= failure_limit and (j.is_new_row or j.noticed_before is null) as is_failing_now
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
             when not n.is_new_row then e.noticed_attempt
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

  if cardinality(recorded) < jsonb_array_length(results) then
    recalled := business_api.recall_attempts(results, recorded, failure_limit);
    endpoints := endpoints || (recalled -> 'endpoints');
    dead_letters := dead_letters || (recalled -> 'deadLetters');
  end if;
  return jsonb_build_object('endpoints', endpoints, 'deadLetters', dead_letters)::text;
end
$$;
