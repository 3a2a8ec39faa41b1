-- This database's place among an installation's shards, and the map: see lib/postgres/shards/. Without shards the table is empty. Rows
-- are only added, so no role needs to change one; the highest version counts, for the database and for each organization.
--
-- With an empty organization_id, for the whole database: the shard's name, and each of the 1,024 slots' shards, in slot order. The slot
-- of an organization is the remainder by which PostgreSQL itself would place the id in a table partitioned by hash with 1,024
-- partitions. The first start writes version 0 to every shard, and then version 1: a shard without a place, beside a shard with version
-- 1, has lost its data.
--
-- For an organization that has left its slot's shard: the current shard or, with an odd version, the new shard of a running move.
-- During a move no shard serves the organization.
create table business_api.shard_places (
  organization_id text collate "C" not null default '',
  name text collate "C" not null,
  version bigint not null,
  slots text[],
  -- The names of shards that were added after the first start. Added shards have no slots: organizations are moved there.
  added text[] not null default '{}',
  -- False: this database answers no call about the organization. Each statement of an organization checks it: see ifHere() in
  -- lib/postgres/statements/here.ts.
  is_here boolean not null default true,
  -- The slot of the organization, as slotOf() in lib/access/slots.ts computes it.
  slot integer not null generated always as (
    ((pg_catalog.hashtextextended(organization_id, 8816678312871386365) & 1023) + 227)::integer & 1023
  ) stored,
  constraint shard_places_pkey primary key (organization_id, version),
  constraint shard_places_slots_check check (
    case when organization_id = '' then cardinality(slots) = 1024 and array_position(slots, null) is null else slots is null end
  )
);

-- For lookups of API keys, which carry the slot of their organization.
create index shard_places_slot_idx on business_api.shard_places (slot) where organization_id <> '';

-- Ends a statement of an organization that is not here. The detail is the organization's place, as JSON.
create function business_api.reject_elsewhere(organization_id text) returns text
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  place record;
begin
  select p.name, p.version into place
    from business_api.shard_places p where p.organization_id = $1 order by p.version desc limit 1;
  raise exception 'Organization % is not in this database: it % shard %',
    $1, case when place.version % 2 = 0 then 'belongs to' else 'is moving to' end, place.name
    using errcode = 'BA001', detail = json_build_object('organizationId', $1, 'name', place.name, 'version', place.version);
end
$$;

-- Returns the stored place, or `first`, and stores `first` if no place of the same or a higher version exists; null without both.
-- `moved` has the organizations away from the shards of their slots, by id, as [name, version]. Adds the entries of `told`.
create function business_api.shard_place(first jsonb, told jsonb) returns jsonb
  language plpgsql volatile
  set search_path = ''
as $$
declare
  given bigint := (first -> 'version')::bigint;
begin
  if first ->> 'name' is not null and not exists (
    select from business_api.shard_places p where p.organization_id = '' and p.version >= given
  ) then
    insert into business_api.shard_places (name, version, slots, added)
    select first ->> 'name', given, array(select jsonb_array_elements_text(first -> 'slots')),
           array(select jsonb_array_elements_text(first -> 'added'))
    on conflict (organization_id, version) do nothing;
  end if;
  if told <> '{}' then
    insert into business_api.shard_places (organization_id, name, version, is_here)
    select t.key, t.value ->> 0, (t.value -> 1)::bigint, false from jsonb_each(told) as t
    on conflict (organization_id, version) do nothing;
  end if;
  return (
    select jsonb_build_object('name', p.name, 'version', p.version, 'slots', p.slots, 'added', p.added, 'moved', (
             select coalesce(jsonb_object_agg(m.organization_id, jsonb_build_array(m.name, m.version)), '{}') from (
               select distinct on (m.organization_id) m.* from business_api.shard_places m
                where m.organization_id <> '' order by m.organization_id, m.version desc
             ) as m
           ))
      from business_api.shard_places p where p.organization_id = '' order by p.version desc limit 1
  );
end
$$;

-- Deletes a part of the rows that an organization has left here when it moved to another shard: see delete_organization_part. Deletes
-- nothing if the organization is here, or is moving: the rows may be the only ones. The lock is that of a copy, which may bring the
-- organization back.
create function business_api.delete_left_part(organization_id text, part_limit integer, after jsonb, record_tables text[])
returns jsonb
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform business_api.lock_move($1);
  if (
    select not p.is_here and p.version % 2 = 0
      from business_api.shard_places p where p.organization_id = $1 order by p.version desc limit 1
  ) then
    return business_api.delete_organization_part($1, part_limit, after, record_tables);
  end if;
  return '{"counts": {}, "next": null}';
end
$$;

-- Until the transaction ends, keeps copying an organization to this database apart from deleting the rows that the organization left
-- here.
create function business_api.lock_move(organization_id text) returns void
language sql volatile
set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('business_api.shard_places ' || $1, 0))
$$;
