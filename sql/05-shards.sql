-- This database's place among the shards of an installation, and the shard map. See lib/postgres/shards/. The table is
-- empty if there are no shards. Rows are only ever added, so no role needs to update them. For the database and for
-- each organization, the row with the highest version is the current one.
--
-- Rows with an empty organization_id are about the whole database: the shard's name, and the shard of each of the 1,024
-- slots in slot order. An organization's slot is the remainder PostgreSQL itself would use for its ID in a table
-- partitioned by hash with 1,024 partitions. The first start writes version 0 to all shards and then version 1. A shard
-- that has no place while another one has version 1 has lost its data.
--
-- Rows with an organization_id are about an organization that has left the shard of its slot. They have the
-- current shard, or the target of a running move if the version is odd. During a move, the organization isn't
-- available on any shard.
create table business_api.shard_places (
  organization_id text collate "C" not null default '',
  name text collate "C" not null,
  version bigint not null,
  slots text[],
  -- Names of the shards that were added after the first start. They have no slots, so organizations must
  -- be moved there.
  added text[] not null default '{}',
  -- If false, this database rejects all calls for the organization. All statements of an organization check this, see
  -- ifHere() in lib/postgres/statements/here.ts.
  is_here boolean not null default true,
  -- The organization's slot. Must match slotOf() in lib/access/slots.ts.
  slot integer not null generated always as (
    ((pg_catalog.hashtextextended(organization_id, 8816678312871386365) & 1023) + 227)::integer & 1023
  ) stored,
  constraint shard_places_pkey primary key (organization_id, version),
  constraint shard_places_slots_check check (
    case when organization_id = '' then cardinality(slots) = 1024 and array_position(slots, null) is null else slots is null end
  )
);

-- Used to look up API keys, which have the slot of their organization encoded in them.
create index shard_places_slot_idx on business_api.shard_places (slot) where organization_id <> '';

-- Fails a statement of an organization that isn't on this database. The error detail is the organization's
-- place as JSON.
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

-- Stores the place `first`, unless there is one with the same or a higher version, and returns the current place, or
-- null if there's none. `moved` has all organizations that aren't on the shard of their slot, as [name, version] by ID.
-- The entries in `told` are added to the map.
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

-- Deletes some of the rows an organization left here when it moved to another shard, see delete_organization_part. Does
-- nothing if the organization is on this database or moving, because these may be the only rows it has. The lock is the
-- same one that is used for copying, which may bring the organization back.
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

-- Until the end of the transaction, prevents an organization from being copied to this database while rows it left here
-- are being deleted.
create function business_api.lock_move(organization_id text) returns void
language sql volatile
set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('business_api.shard_places ' || $1, 0))
$$;
