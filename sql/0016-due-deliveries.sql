-- Deliveries that become claimable again: deliveries of dead processes, and due retries.
--
-- Delivery loops call these functions, and the functions of claims and of attempt results, all the time. The tables may be empty
-- one day and have millions of rows the next, while a session keeps its plans. Therefore each function turns off the scans and
-- joins that are right for a small table only. (The planner counts a disabled method as expensive, and without plan_cache_mode
-- would plan every call anew, which took six times as long as the call.) For the same reason the writes find rows by primary key
-- and claim token alone: with the condition of a partial index, the planner might read that index from end to end. A delivery has
-- a token for as long as the claim is in force.
-- Locks: nothing in use; every object is new.

-- Frees the claimed deliveries of dead processes. The attempt counts, because the request may have reached the subscriber.
-- Returns, as JSON, the deliveries that were dead-lettered by the call.
create function business_api.reclaim_expired_leases(max_attempts integer) returns json
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
  with expired as (
    select d.organization_id, d.id, d.claimed_at, d.lease_until, d.attempts - d.attempts_before >= $1 as was_last
      from business_api.open_deliveries d
     where d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  ), due_again as (
    update business_api.open_deliveries d
       set due_at = at_time, claim_token = null, claimed_at = null, lease_until = null
      from expired
     where d.organization_id = expired.organization_id and d.id = expired.id and not expired.was_last
    returning d.organization_id, d.id, d.attempts, expired.claimed_at, expired.lease_until
  ), ended as (
    delete from business_api.open_deliveries d using expired
     where d.organization_id = expired.organization_id and d.id = expired.id and expired.was_last
    returning d.*
  ), finished as (
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at, attempts, is_backfill)
    select e.organization_id, e.id, e.event_id, e.type, e.endpoint_id, 'dead_lettered', 'interrupted', e.created_at, at_time,
           e.attempts, e.is_backfill
      from ended e
  ), logged as (
    insert into business_api.delivery_attempts
      (organization_id, delivery_id, number, started_at, duration_ms, error, body_excerpt)
    select f.organization_id, f.id, f.attempts, f.claimed_at,
           extract(epoch from f.lease_until - f.claimed_at) * 1000, 'interrupted', ''
      from (
        select * from due_again
        union all
        select e.organization_id, e.id, e.attempts, e.claimed_at, e.lease_until from ended e
      ) as f
    on conflict do nothing
  )
  select coalesce(json_agg(json_build_object(
           'organizationId', e.organization_id, 'endpointId', e.endpoint_id, 'deliveryId', e.id,
           'eventId', e.event_id, 'type', e.type, 'reason', 'interrupted'
         )), '[]')
    into dead_letters
    from ended e;
  return dead_letters;
end
$$;

-- Adds due retries to the deliveries that claims walk over.
create function business_api.promote_due_retries(at_time timestamptz) returns void
language sql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
  with due as (
    select d.organization_id, d.id from business_api.open_deliveries d
     where d.is_backing_off and d.due_at <= $1
     order by d.due_at
     limit 500
       for update skip locked
  )
  update business_api.open_deliveries d set is_backing_off = false
    from due
   where d.organization_id = due.organization_id and d.id = due.id
$$;
