-- The installation that a database belongs to: a loop of another installation, such as a staging copy, does not send to customers.

create table business_api.installation (
  -- Always empty: a single row.
  organization_id text collate "C" not null default '',
  -- Null until a loop with a name has started.
  name text,
  -- Of the server and the database, when a loop started first or somebody adopted the database. A restore or a copy differs, and so does
  -- pg_upgrade; a snapshot of the volume does not. So this is a hint only.
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

-- Compares the installation of a loop with that of the database, and gives a database without a name the name of the loop: see
-- InstallationStore in lib/webhooks/installation.ts. A database that has moved gets no name: it may be a copy, and the loop waits.
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

-- Cancels a part of the deliveries that are not being sent, of all organizations: up to `part_limit` along the primary key from `after` on, a
-- JSON array. A delivery whose lease has ended counts: its process is gone, as all are in a restored database. Each organization gets
-- the audit entry, whose number of deliveries grows with each part. Returns, as JSON, the number of deliveries, and the next `after`; null
-- ends the pass. `sending` counts the deliveries that were left.
create function business_api.cancel_pending_part(after jsonb, part_limit integer, entry jsonb) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  answer jsonb;
begin
  with candidate as materialized (
    select d.organization_id, d.id from business_api.open_deliveries d
     where (d.organization_id, d.id) > (coalesce(after ->> 0, ''), coalesce(after ->> 1, ''))
     order by d.organization_id, d.id
     limit part_limit
  ), closed as (
    delete from business_api.open_deliveries d using candidate c
     where d.organization_id = c.organization_id and d.id = c.id
       and (d.lease_until is null or d.lease_until <= clock_timestamp())
    returning d.*
  ), cancelled as (
    insert into business_api.finished_deliveries (
      organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at, attempts, is_backfill
    )
    select c.organization_id, c.id, c.event_id, c.type, c.endpoint_id, 'cancelled', c.created_at, now(), c.attempts, c.is_backfill
      from closed c
    returning organization_id
  ), counted as (
    select c.organization_id, count(*) as deliveries from cancelled c group by c.organization_id
  ), audited as (
    insert into business_api.audit_entries as audit
      (organization_id, id, changed_at, actor, action, subject_id, details)
    select c.organization_id, entry ->> 'id', clock_timestamp(), entry ->> 'actor', entry ->> 'action', c.organization_id,
           jsonb_build_object('cancelled', c.deliveries)
      from counted c
    on conflict (organization_id, id) do update set
      details = jsonb_build_object(
        'cancelled', (audit.details ->> 'cancelled')::bigint + (excluded.details ->> 'cancelled')::bigint
      )
  )
  select jsonb_build_object(
           'cancelled', (select count(*) from closed),
           'sending', count(*) - (select count(*) from closed),
           'next', case when count(*) = part_limit then
             (array_agg(jsonb_build_array(c.organization_id, c.id) order by c.organization_id desc, c.id desc))[1]
           end
         )
    into answer
    from candidate c;
  return answer;
end
$$;
select business_api.forbid_plans('cancel_pending_part');
