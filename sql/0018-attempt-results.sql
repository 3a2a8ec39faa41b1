-- The results of attempts, and their effects on deliveries, on the attempt log and on the health of endpoints.
-- Locks: nothing in use; every object is new.

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
