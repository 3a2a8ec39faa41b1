-- Events, finished deliveries and attempts become tables partitioned by day. The tables with data are attached as the first day, as
-- they are; empty tables are replaced.
-- Locks: business_api.events, business_api.finished_deliveries and business_api.delivery_attempts against everything, for some
-- milliseconds: no row is read or written.

lock table business_api.events, business_api.finished_deliveries, business_api.delivery_attempts in access exclusive mode;

alter table business_api.events drop constraint events_pkey;
alter table business_api.events add primary key using index events_first_pkey;
alter table business_api.finished_deliveries rename constraint finished_deliveries_pkey to finished_deliveries_first_pkey;
alter table business_api.delivery_attempts rename constraint delivery_attempts_pkey to delivery_attempts_first_pkey;
alter index business_api.events_created_at_idx rename to events_first_created_at_idx;
alter index business_api.events_log_idx rename to events_first_log_idx;
alter index business_api.finished_deliveries_state_idx rename to finished_deliveries_first_state_idx;
alter index business_api.finished_deliveries_type_idx rename to finished_deliveries_first_type_idx;
alter index business_api.finished_deliveries_recoverable_idx rename to finished_deliveries_first_recoverable_idx;
alter table business_api.events rename to events_first;
alter table business_api.finished_deliveries rename to finished_deliveries_first;
alter table business_api.delivery_attempts rename to delivery_attempts_first;

-- By the delivery_prefix, which begins with the time of publishing, and not by the id, which a host may give.
create table business_api.events (like business_api.events_first) partition by range (delivery_prefix);
alter table business_api.events add constraint events_pkey primary key (organization_id, id, delivery_prefix);
create index events_created_at_idx on business_api.events (created_at, organization_id, id);
create index events_log_idx on business_api.events (organization_id, created_at, id);

create table business_api.finished_deliveries (like business_api.finished_deliveries_first including defaults)
  partition by range (id);
alter table business_api.finished_deliveries
  add constraint finished_deliveries_pkey primary key (organization_id, id),
  add constraint finished_deliveries_state_check check (state in ('delivered', 'dead_lettered', 'skipped', 'cancelled'));
create index finished_deliveries_state_idx
  on business_api.finished_deliveries (organization_id, state, endpoint_id, id)
  where state in ('delivered', 'dead_lettered', 'skipped', 'cancelled');
create index finished_deliveries_type_idx
  on business_api.finished_deliveries (organization_id, type, endpoint_id, id)
  where state in ('delivered', 'dead_lettered', 'skipped', 'cancelled');
create index finished_deliveries_recoverable_idx
  on business_api.finished_deliveries (organization_id, state, endpoint_id, id)
  where state in ('dead_lettered', 'skipped');

create table business_api.delivery_attempts (like business_api.delivery_attempts_first) partition by range (delivery_id);
alter table business_api.delivery_attempts
  add constraint delivery_attempts_pkey primary key (organization_id, delivery_id, number);

-- Owner, privileges and row level security of the tables go over to the parents.
do $$
declare
  parent text;
  old regclass;
  new regclass;
  held record;
begin
  foreach parent in array array['events', 'finished_deliveries', 'delivery_attempts'] loop
    old := format('business_api.%I', parent || '_first')::regclass;
    new := format('business_api.%I', parent)::regclass;
    execute (
      select format('alter table %s owner to %I', new, pg_get_userbyid(c.relowner)) from pg_catalog.pg_class c where c.oid = old
    );
    for held in
      select a.privilege_type as privilege, null::name as attribute, a.is_grantable, a.grantee
        from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) as a
       where c.oid = old and a.grantee <> c.relowner
      union all
      select a.privilege_type, t.attname, a.is_grantable, a.grantee
        from pg_catalog.pg_attribute t cross join lateral aclexplode(t.attacl) as a
       where t.attrelid = old
    loop
      execute format(
        'grant %s%s on %s to %s%s', held.privilege, coalesce(' (' || quote_ident(held.attribute) || ')', ''), new,
        case when held.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(held.grantee)) end,
        case when held.is_grantable then ' with grant option' else '' end
      );
    end loop;
    for held in
      select p.polname as name, case when p.polpermissive then 'permissive' else 'restrictive' end as kind,
             case
               when p.polcmd = 'r' then 'select'
               when p.polcmd = 'a' then 'insert'
               when p.polcmd = 'w' then 'update'
               when p.polcmd = 'd' then 'delete'
               else 'all'
             end as command,
             (
               select string_agg(case when role = 0 then 'public' else quote_ident(pg_get_userbyid(role)) end, ', ')
                 from unnest(p.polroles) as role
             ) as roles,
             coalesce(' using (' || pg_get_expr(p.polqual, p.polrelid) || ')', '')
               || coalesce(' with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', '') as conditions
        from pg_catalog.pg_policy p where p.polrelid = old
    loop
      execute format(
        'create policy %I on %s as %s for %s to %s%s',
        held.name, new, held.kind, held.command, held.roles, held.conditions
      );
    end loop;
    select c.relrowsecurity as is_enabled, c.relforcerowsecurity as is_forced into held
      from pg_catalog.pg_class c where c.oid = old;
    if held.is_enabled then
      execute format('alter table %s enable row level security', new);
    end if;
    if held.is_forced then
      execute format('alter table %s force row level security', new);
    end if;
  end loop;
end
$$;

do $$
declare
  first_end text := business_api.first_day_end();
  parent text;
begin
  -- By size, because row level security might hide rows.
  if pg_relation_size('business_api.events_first') + pg_relation_size('business_api.finished_deliveries_first')
    + pg_relation_size('business_api.delivery_attempts_first') = 0
  then
    drop table business_api.events_first, business_api.finished_deliveries_first, business_api.delivery_attempts_first;
    delete from business_api.event_days;
  else
    foreach parent in array array['events', 'finished_deliveries', 'delivery_attempts'] loop
      -- No row is read: the validated check says what the partition needs.
      execute format(
        'alter table business_api.%I attach partition business_api.%I for values from (minvalue) to (%L)',
        parent, parent || '_first', first_end
      );
      execute format('alter table business_api.%I drop constraint %I', parent || '_first', parent || '_first_check');
    end loop;
  end if;
  perform business_api.make_days();
end
$$;
