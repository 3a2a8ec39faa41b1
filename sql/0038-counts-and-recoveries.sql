-- The counts of the queue by node and by organization, recoveries of one organization, and the records of a backfill in a form that a
-- distributed database plans for one shard.
-- 0016-due-deliveries.sql says why each function limits the planner.
-- Locks: nothing in use; functions are added and replaced.

-- Counts the unfinished deliveries and the dead letters of this node, as count_queue does, or those of an organization or an
-- endpoint, which the organization's node answers for; organization and endpoint may be null. One query for each shard, because a plan
-- costs more than most counts. Each count ends after count_max, and the walks end after 2,000 endpoints and 1,000 organizations of a
-- shard. Of an organization up to three times count_max deliveries that are backing off are read.
create function business_api.count_queue_of_node(organization_id text, endpoint_id text, count_max integer) returns text
language plpgsql volatile
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
declare
  at_time timestamptz := clock_timestamp();
  -- One more than count_max says that there are more.
  counted_max integer := count_max + 1;
  own text := case when $1 is null then '' else ' and d.organization_id = $1' end
    || case when $2 is null then '' else ' and d.endpoint_id = $2' end;
  source record;
  found_counts record;
  due bigint := 0;
  oldest_due timestamptz;
  backing_off bigint := 0;
  paused bigint := 0;
  in_flight bigint := 0;
  dead_letters bigint := 0;
begin
  for source in select t.deliveries, t.finished, t.endpoints from business_api.tables_of_node($1) as t loop
    begin
      execute format(
        $query$
        with recursive walk (organization_id, endpoint_id, place, due, paused, oldest) as (
          values (coalesce($1, '') collate "C", '' collate "C", 0, 0::bigint, 0::bigint, null::timestamptz)
          union all
          select next.organization_id, next.endpoint_id, walk.place + 1,
                 least($3, walk.due + case when e.state = 'enabled' then pending.total else 0 end),
                 least($3, walk.paused + case when e.state = 'paused' then pending.total else 0 end),
                 least(walk.oldest, case when e.state = 'enabled' then pending.oldest end)
            from walk
            cross join lateral (
              select one.organization_id, one.endpoint_id
                from (
                  (
                    select d.organization_id, d.endpoint_id from %1$s d
                     where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                       and (d.organization_id, d.endpoint_id) > (walk.organization_id, walk.endpoint_id)
                     order by d.organization_id, d.endpoint_id limit 1
                  )
                  union all
                  (
                    select d.organization_id, d.endpoint_id from %1$s d
                     where d.claim_token is null and not d.is_backing_off and d.is_backfill
                       and (d.organization_id, d.endpoint_id) > (walk.organization_id, walk.endpoint_id)
                     order by d.organization_id, d.endpoint_id limit 1
                  )
                ) as one
               order by one.organization_id, one.endpoint_id limit 1
            ) as next
            left join lateral (
              select w.state from %3$s w
               where w.organization_id = next.organization_id and w.id = next.endpoint_id and ($2 is null or w.id = $2)
            ) as e on true
            cross join lateral (select case when e.state = 'paused' then walk.paused else walk.due end as before) as counted
            -- The oldest first attempt stands first; of the retries the oldest is found among the first hundred.
            cross join lateral (
              select count(*) as total, min(f.due_at) filter (where not f.is_backfill) as oldest
                from (
                  (
                    select d.due_at, false as is_backfill from %1$s d
                     where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                       and d.organization_id = next.organization_id and d.endpoint_id = next.endpoint_id and not d.is_retry
                     order by d.id limit greatest(1, $3 - counted.before)
                  )
                  union all
                  (
                    select d.due_at, false from %1$s d
                     where d.claim_token is null and not d.is_backing_off and not d.is_backfill
                       and d.organization_id = next.organization_id and d.endpoint_id = next.endpoint_id and d.is_retry
                     order by d.id limit greatest(100, $3 - counted.before)
                  )
                  union all
                  (
                    select d.due_at, true from %1$s d
                     where d.claim_token is null and not d.is_backing_off and d.is_backfill
                       and d.organization_id = next.organization_id and d.endpoint_id = next.endpoint_id
                     order by d.is_retry, d.id limit $3 - counted.before
                  )
                ) as f
               where e.state in ('enabled', 'paused')
            ) as pending
           where walk.place < 2000 and ($1 is null or next.organization_id = $1)
        ), waiting as (
          select e.state, f.due_at, f.is_backfill
            from (%4$s) as f
            join %3$s e on e.organization_id = f.organization_id and e.id = f.endpoint_id
        ), walked as (
          select w.due, w.paused, w.oldest from walk w order by w.place desc limit 1
        )
        select walked.due + waited.late_due as due, walked.paused + waited.late_paused as paused,
               least(walked.oldest, waited.oldest) as oldest, waited.backing_off, (
                 select count(*) from (select 1 from %1$s d where d.lease_until is not null%5$s order by d.lease_until limit $3) as f
               ) as in_flight, (
                 %6$s
               ) as dead_letters
          from walked
          cross join (
            select count(*) filter (where w.due_at > $4 and w.state in ('enabled', 'paused')) as backing_off,
                   count(*) filter (where w.due_at <= $4 and w.state = 'enabled') as late_due,
                   count(*) filter (where w.due_at <= $4 and w.state = 'paused') as late_paused,
                   min(w.due_at) filter (where w.due_at <= $4 and w.state = 'enabled' and not w.is_backfill) as oldest
              from waiting w
          ) as waited
        $query$,
        source.deliveries, source.finished, source.endpoints,
        -- Retries become pending with the next claim: while no loop runs, due retries still count as backing off.
        case
          when $1 is not null then format(
            'select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from %s d where d.is_backing_off%s limit 3 * $3',
            source.deliveries, own
          )
          else format(
            '(
               select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from %1$s d
                where d.is_backing_off and d.due_at <= $4 order by d.due_at limit $3
             )
             union all
             (
               select d.organization_id, d.endpoint_id, d.due_at, d.is_backfill from %1$s d
                where d.is_backing_off and d.due_at > $4 order by d.due_at limit $3
             )',
            source.deliveries
          )
        end,
        own,
        case
          when $1 is not null then format(
            'select count(*)
               from (
                 select 1 from %s d
                  where d.state in (''dead_lettered'', ''skipped'') and d.state = ''dead_lettered''%s
                  limit $3
               ) as f',
            source.finished, own
          )
          -- From organization to organization, because skipped deliveries stand between the dead letters.
          else format(
            'with recursive dead (organization_id, place, total) as (
               values ('''' collate "C", 0, 0::bigint)
               union all
               select next.organization_id, dead.place + 1, dead.total + counted.total
                 from dead
                 cross join lateral (
                   select d.organization_id from %1$s d
                    where d.state in (''dead_lettered'', ''skipped'') and d.organization_id > dead.organization_id
                    order by d.organization_id, d.state, d.endpoint_id, d.id limit 1
                 ) as next
                 cross join lateral (
                   select count(*) as total
                     from (
                       select 1 from %1$s d
                        where d.organization_id = next.organization_id
                          and d.state in (''dead_lettered'', ''skipped'') and d.state = ''dead_lettered''
                        limit $3 - dead.total
                     ) as f
                 ) as counted
                where dead.place < 1000 and dead.total < $3
             )
             select max(d.total) from dead d',
            source.finished
          )
        end
      ) into found_counts using $1, $2, counted_max, at_time;
      due := least(counted_max, due + found_counts.due);
      paused := least(counted_max, paused + found_counts.paused);
      oldest_due := least(oldest_due, found_counts.oldest);
      backing_off := least(counted_max, backing_off + found_counts.backing_off);
      in_flight := least(counted_max, in_flight + found_counts.in_flight);
      dead_letters := least(counted_max, dead_letters + found_counts.dead_letters);
    exception
      -- The shard was moved to another node a moment ago.
      when undefined_table then null;
    end;
  end loop;
  return json_build_object(
    'due', due,
    'oldestDueMs', greatest(0, coalesce(extract(epoch from at_time - oldest_due) * 1000, 0)),
    'backingOff', backing_off,
    'paused', paused,
    'inFlight', in_flight,
    'deadLetters', dead_letters
  )::text;
end
$$;

-- Starts a new round for finished deliveries of an organization: see recoverDeliveries in lib/postgres/delivery-log.ts. Of the given
-- ids those are taken that match the rest; each of endpoint_id, event_id, type, states, since and until may be null. A call that is
-- sent again takes the subject of the entry only once. Returns a JSON array of ids.
create function business_api.reopen_deliveries(
  organization_id text,
  ids text[],
  endpoint_id text,
  event_id text,
  type text,
  states text[],
  since timestamptz,
  until timestamptz,
  delivery_limit integer,
  entry jsonb
) returns text
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  locked text[];
  is_repeat boolean;
  reopened jsonb;
  taken text[];
begin
  -- A recovery at the same time waits here for the other, and then finds the deliveries gone.
  select coalesce(array_agg(f.id), '{}') into locked
    from (
      select d.id from business_api.finished_deliveries d
       where d.organization_id = $1 and d.id = any ($2)
         and ($3 is null or d.endpoint_id = $3) and ($4 is null or d.event_id = $4) and ($5 is null or d.type = $5)
         and ($6 is null or d.state = any ($6))
         and ($7 is null or d.created_at >= $7) and ($8 is null or d.created_at < $8)
         and exists (
           select 1 from business_api.webhook_endpoints e
            where e.organization_id = $1 and e.id = d.endpoint_id and e.state <> 'removed'
         )
       order by d.id
       limit $9
         for update of d
    ) as f;
  -- After the wait, because an earlier try of this call may have ended meanwhile.
  is_repeat := business_api.is_recorded($1, entry ->> 'id');
  if is_repeat then
    locked := array_remove(locked, entry ->> 'subjectId');
  end if;
  with gone as (
    delete from business_api.finished_deliveries d
     where d.organization_id = $1 and d.id = any (locked)
    returning d.*
  )
  select coalesce(jsonb_agg(g), '[]') into reopened from gone g;
  if reopened <> '[]' then
    perform business_api.insert_reopened_deliveries($1, reopened);
    perform business_api.count_in_audit_entry(
      $1, entry ->> 'id', entry ->> 'actor', entry ->> 'action', entry ->> 'subjectId', entry -> 'details',
      jsonb_array_length(reopened)
    );
  end if;
  taken := array(select r.id from jsonb_to_recordset(reopened) as r (id text));
  if is_repeat and entry ->> 'subjectId' = any ($2) then
    taken := taken || (entry ->> 'subjectId');
  end if;
  return (select coalesce(json_agg(t.id order by t.id collate "C"), '[]') from unnest(taken) as t (id))::text;
end
$$;

-- Reads the next records with an event of a type, in the order of the ids: the representation of each, and its business.
create or replace function business_api.backfill_records(organization_id text, type text, after_id text, record_limit integer)
returns table (id text, business_id text, representation text)
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  if $2 = 'business.created' then
    return query
      select r.id, r.id, r.representation from business_api.businesses r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  elsif $2 = 'client.created' then
    return query
      select r.id, r.business_id, left(r.representation, -1) || ',"business":' || b.representation || '}'
        from (
          select c.id, c.business_id, c.representation from business_api.clients c
           where c.organization_id = $1 and c.id > $3 order by c.id limit $4
        ) as r
        join business_api.businesses b on b.organization_id = $1 and b.id = r.business_id;
  elsif $2 = 'lead.created' then
    return query
      select r.id, r.business_id, r.representation from business_api.leads r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  elsif $2 = 'proposal.created' then
    return query
      select r.id, null::text, r.representation from business_api.proposals r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  else
    raise exception 'Cannot backfill % because no record has such an event', $2 using errcode = 'invalid_parameter_value';
  end if;
end
$$;
