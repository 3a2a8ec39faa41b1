-- The installation that a database belongs to: a loop of another installation, such as a staging copy, does not send to customers.

create table business_api.installation (
  -- Always empty: a single row.
  organization_id text collate "C" not null default '',
  -- Null until a loop with a name has started.
  name text,
  -- The server's and the database's identity when the first loop started or the database was adopted. A restore or a copy differs, and
  -- so does pg_upgrade; a snapshot of the volume does not. So this is a hint only.
  identity text not null,
  constraint installation_pkey primary key (organization_id),
  constraint installation_organization_id_check check (organization_id = '')
);

-- The server and the database as they are.
create function business_api.database_identity() returns text
language plpgsql stable
set search_path = ''
as $$
begin
  return (select c.system_identifier || ' ' || current_database() from pg_control_system() as c);
-- Some administrators revoke the function. The name alone is a weaker hint, and no loop stops for want of a hint.
exception when insufficient_privilege then
  return current_database();
end
$$;

-- Compares a loop's installation with the database's, and names an unnamed database after the loop: see InstallationStore in
-- lib/webhooks/installation.ts. A database that has moved gets no name: it may be a copy, and the loop waits.
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

-- Cancels all organizations' deliveries in a part of the table (100 blocks, about 3,000 deliveries), except those being sent. The walk
-- is by blocks, because along an index a second run would first read all that the first has deleted, in one statement. A delivery with
-- an expired lease counts: the process is gone, like every process of a restored database. Each organization gets the audit entry,
-- whose number of deliveries grows with each part. Returns as JSON: the number of deliveries, `sending` for those left, and the next
-- block; null ends the walk.
create function business_api.cancel_pending_part(first_block bigint, entry jsonb) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  next_block bigint := first_block + 100;
  first_place tid := format('(%s,0)', first_block);
  next_place tid := format('(%s,0)', next_block);
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
  ), audited as (
    insert into business_api.audit_entries as audit
      (organization_id, id, changed_at, actor, action, subject_id, details)
    select c.organization_id, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', c.organization_id,
           jsonb_build_object('cancelled', count(*))
      from cancelled c group by c.organization_id
    on conflict (organization_id, id) do update set
      details = jsonb_build_object(
        'cancelled', (audit.details ->> 'cancelled')::bigint + (excluded.details ->> 'cancelled')::bigint
      )
  )
  select jsonb_build_object(
           'cancelled', (select count(*) from closed),
           'sending', count(*) - (select count(*) from closed),
           'next', case when next_block < pg_relation_size('business_api.open_deliveries') / current_setting('block_size')::bigint
             then next_block end
         )
    into answer
    from business_api.open_deliveries d where d.ctid >= first_place and d.ctid < next_place;
  return answer;
end
$$;
select business_api.forbid_plans('cancel_pending_part');
