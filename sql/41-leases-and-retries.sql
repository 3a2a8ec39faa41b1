-- Deliveries that can be claimed again (due retries and deliveries of dead processes), and those that never will be.
-- Writes find rows only by primary key and claim token. With a partial index's condition, the planner might scan that
-- whole index. A delivery has a token as long as its claim is active.

-- Makes due retries visible to claims.
create function business_api.promote_due_retries(at_time timestamptz) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  due record;
begin
  for due in
    select d.organization_id, d.id from business_api.open_deliveries d
     where d.is_backing_off and d.due_at <= $1
     order by d.due_at
     limit 500
       for update skip locked
  loop
    update business_api.open_deliveries d set is_backing_off = false
     where d.organization_id = due.organization_id and d.id = due.id;
  end loop;
end
$$;
select business_api.forbid_plans('promote_due_retries');

-- Frees a dead process's delivery, which the caller must have locked. The attempt counts because the request may have
-- reached the subscriber. `failed` is an array with the delivery if this was its last attempt, and otherwise empty.
-- `attempt` is only set if the attempt was logged.
--
-- The tables of the delivery's day may have been dropped or detached. If that were an error, nothing could be claimed
-- anymore, so instead the delivery stays claimed for ten more minutes at a time until the tables are back. A delivery
-- is only deleted if the event and the day are both gone.
create function business_api.reclaim_lease(
  organization_id text, id text, at_time timestamptz, max_attempts integer,
  out failed jsonb, out attempt business_api.ended_attempt
)
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  expired record;
  day_name text;
  is_whole boolean := true;
  broken text;
begin
  failed := '[]';
  select d.* into expired from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
  -- Looked up by key. See claim_deliveries.
  perform 1 from business_api.events e
    where e.organization_id = $1 and e.id = expired.event_id
      and e.delivery_prefix >= left($2, 14) and e.delivery_prefix <= $2
    order by e.delivery_prefix limit 1;
  if not found then
    select d.name into day_name from business_api.event_days d
     where d.organization_id = '' and d.begins <= $2 and d.ends > $2 and d.dropped_at is null;
    -- No visible day at all means that row-level security is hiding them.
    if not found and exists (select 1 from business_api.event_days d where d.organization_id = '') then
      delete from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
      return;
    end if;
    -- A recreated table has lost the event for good, so the delivery ends after its last attempt.
    is_whole := coalesce(
      pg_partition_root(to_regclass('business_api.events_' || day_name)) = 'business_api.events'::regclass, false
    );
  end if;
  if is_whole then
    begin
      insert into business_api.delivery_attempts
        (organization_id, delivery_id, number, started_at, duration_ms, error, body_excerpt)
      values (
        $1, $2, expired.attempts, expired.claimed_at, extract(epoch from expired.lease_until - expired.claimed_at) * 1000,
        'interrupted', ''
      )
      on conflict do nothing;
      if found then
        attempt := row(
          $1, expired.endpoint_id, case when expired.attempts - expired.attempts_before < $4 then 'retry' else 'failed' end,
          expired.created_at, null, null, 'interrupted'
        );
      end if;
      if expired.attempts - expired.attempts_before < $4 then
        update business_api.open_deliveries d
           set due_at = $3, claim_token = null, claimed_at = null, lease_until = null
         where d.organization_id = $1 and d.id = $2;
        return;
      end if;
      delete from business_api.open_deliveries d where d.organization_id = $1 and d.id = $2;
      insert into business_api.finished_deliveries
        (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
      values (
        $1, $2, expired.event_id, expired.type, expired.endpoint_id, 'failed', 'interrupted', expired.created_at, $3,
        expired.attempts, expired.is_backfill
      );
      failed := jsonb_build_array(jsonb_build_object(
        'organizationId', $1, 'endpointId', expired.endpoint_id, 'deliveryId', $2, 'eventId', expired.event_id,
        'type', expired.type, 'reason', 'interrupted'
      ));
      return;
    exception
      when check_violation then
        -- The error for a missing partition has no constraint name.
        get stacked diagnostics broken = constraint_name;
        if broken <> '' then
          raise;
        end if;
        attempt := null;
    end;
  end if;
  -- claimed_at moves along with the lease, so the logged attempt isn't longer than the lease. The token changes because
  -- a probe must not last that long (44-endpoint-rates.sql).
  update business_api.open_deliveries d
     set claimed_at = d.claimed_at + ($3 + interval '10 minutes' - d.lease_until), lease_until = $3 + interval '10 minutes',
         claim_token = 'expired'
   where d.organization_id = $1 and d.id = $2;
end
$$;

-- Frees dead processes' deliveries. Returns those that failed as a result, as JSON.
create function business_api.reclaim_expired_leases(max_attempts integer) returns json
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  at_time timestamptz := clock_timestamp();
  expired record;
  reclaimed record;
  failed jsonb := '[]';
  attempts business_api.ended_attempt[] := '{}';
begin
  for expired in
    select d.organization_id, d.id from business_api.open_deliveries d
     where d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  loop
    reclaimed := business_api.reclaim_lease(expired.organization_id, expired.id, at_time, max_attempts);
    failed := failed || reclaimed.failed;
    if (reclaimed.attempt).outcome is not null then
      attempts := attempts || reclaimed.attempt;
    end if;
  end loop;
  if attempts <> '{}' then
    perform business_api.count_activity(attempts);
  end if;
  return failed::json;
end
$$;
select business_api.forbid_plans('reclaim_expired_leases');

-- Skips up to 500 pending deliveries of a disabled or removed endpoint. Later claims skip the rest.
create function business_api.skip_pending(organization_id text, endpoint_id text) returns void
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  pending text[] := array(
    select d.id from business_api.open_deliveries d
     where d.organization_id = $1 and d.endpoint_id = $2
       and d.claim_token is null and not d.is_backing_off
     limit 500
       for update skip locked
  );
begin
  with gone as (
    delete from business_api.open_deliveries d
     where d.organization_id = $1 and d.id = any (pending)
    returning d.*
  )
  insert into business_api.finished_deliveries
    (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
  select $1, g.id, g.event_id, g.type, g.endpoint_id, 'skipped', 'endpoint_disabled', g.created_at, clock_timestamp(), g.attempts,
         g.is_backfill
    from gone g;
end
$$;
select business_api.forbid_plans('skip_pending');
