-- The installation that a database belongs to, so a loop on a staging copy doesn't send to customers.

create table business_api.installation (
  -- Always empty, so there's only a single row.
  organization_id text collate "C" not null default '',
  -- Null until a named loop has been started.
  name text,
  -- The server's and database's identity when the first loop was started or the database was adopted. A restore, a copy
  -- or pg_upgrade changes the identity but a volume snapshot doesn't, so it's only used as a hint.
  identity text not null,
  constraint installation_pkey primary key (organization_id),
  constraint installation_organization_id_check check (organization_id = '')
);

-- Returns the current identity of the server and database.
create function business_api.database_identity() returns text
language plpgsql stable
set search_path = ''
as $$
begin
  return (select c.system_identifier || ' ' || current_database() from pg_control_system() as c);
-- Some administrators revoke this function. The name alone is a weaker hint, but no reason to stop a loop.
exception when insufficient_privilege then
  return current_database();
end
$$;

-- Compares a loop's installation with the database's. See InstallationStore in lib/webhooks/installation.ts. An unnamed
-- database gets the loop's name, unless it has moved. In that case it may be a copy, and the loop waits.
create function business_api.check_installation(given text, adopts boolean default false) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
declare
  stored business_api.installation;
  actual text := business_api.database_identity();
begin
  select * into stored from business_api.installation i where i.organization_id = '';
  if not found or adopts or (stored.name is null and given is not null and stored.identity = actual) then
    insert into business_api.installation as i (name, identity) values (given, actual)
    on conflict (organization_id) do update set
      name = case when adopts then excluded.name else coalesce(i.name, excluded.name) end,
      identity = case when adopts then excluded.identity else i.identity end
    returning * into stored;
  end if;
  return jsonb_build_object('name', stored.name, 'isMoved', stored.identity <> actual);
end
$$;

-- Cancels deliveries across organizations in part of the table (100 blocks, about 3,000 deliveries), except those being
-- sent. We go by blocks because a second run along an index would have to skip everything the first one has deleted, in
-- a single statement. Deliveries with an expired lease are cancelled, since their process is gone, like all processes
-- of a restored database. Each organization gets one audit entry, whose number of deliveries increases with each part.
-- Returns a JSON object with the number of cancelled deliveries, the number of those being sent as `sending`, and the
-- next block, which is null at the end.
create function business_api.cancel_pending_part(first_block bigint, entry jsonb) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  next_block bigint := first_block + 100;
  first_place tid := format('(%s,0)', first_block);
  next_place tid := format('(%s,0)', next_block);
  owners jsonb;
  answer jsonb;
begin
  with closed as (
    delete from business_api.open_deliveries d
     where d.ctid >= first_place and d.ctid < next_place and (d.lease_until is null or d.lease_until <= clock_timestamp())
    returning d.*
  ), cancelled as (
    insert into business_api.finished_deliveries (
      organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at, attempts, is_backfill
    )
    select c.organization_id, c.id, c.event_id, c.type, c.endpoint_id, 'cancelled', c.created_at, now(), c.attempts, c.is_backfill
      from closed c
    returning organization_id
  )
  select (
           select jsonb_object_agg(o.organization_id, o.deliveries)
             from (select c.organization_id, count(*) as deliveries from cancelled c group by c.organization_id) as o
         ),
         jsonb_build_object(
           'cancelled', (select count(*) from closed),
           'sending', count(*) - (select count(*) from closed),
           'next', case when next_block < pg_relation_size('business_api.open_deliveries') / current_setting('block_size')::bigint
             then next_block end
         )
    into owners, answer
    from business_api.open_deliveries d where d.ctid >= first_place and d.ctid < next_place;
  perform business_api.count_in_entry(o.key, entry, 'cancelled', o.value::bigint) from jsonb_each_text(owners) as o;
  return answer;
end
$$;
select business_api.forbid_plans('cancel_pending_part');
