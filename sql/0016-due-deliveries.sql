-- Deliveries that become claimable again: deliveries of dead processes, and due retries.
--
-- Delivery loops call these functions, and the functions of claims and of attempt results, all the time. The tables may be empty
-- one day and have millions of rows the next, while a session keeps its plans. Therefore each function turns off the scans and
-- joins that are right for a small table only. (The planner counts a disabled method as expensive, and without plan_cache_mode
-- would plan every call anew, which took six times as long as the call.) For the same reason the writes find rows by primary key
-- and claim token alone: with a condition on the state, the planner might read a partial index from end to end. A delivery has a
-- token for as long as the claim is in force.
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
      from business_api.deliveries d
     where d.state = 'in_flight' and d.lease_until <= at_time
     order by d.lease_until
     limit 500
       for update skip locked
  ), freed as (
    update business_api.deliveries d
       set state = case when expired.was_last then 'dead_lettered' else 'pending' end,
           reason = case when expired.was_last then 'interrupted' end,
           finished_at = case when expired.was_last then at_time end,
           due_at = at_time,
           claim_token = null, lease_until = null
      from expired
     where d.organization_id = expired.organization_id and d.id = expired.id
    returning d.organization_id, d.id, d.endpoint_id, d.event_id, d.attempts, d.reason,
              expired.claimed_at, expired.lease_until, expired.was_last
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
    select d.organization_id, d.id from business_api.deliveries d
     where d.state = 'pending' and d.is_backing_off and d.due_at <= $1
     order by d.due_at
     limit 500
       for update skip locked
  )
  update business_api.deliveries d set is_backing_off = false
    from due
   where d.organization_id = due.organization_id and d.id = due.id
$$;
