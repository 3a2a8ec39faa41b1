-- The place of this database among the shards of an installation, for the whole database, which the first process of a sharded store
-- writes (lib/postgres/shards/). Without shards the table is empty, and no statement reads it.
--
-- The highest version counts. The first start writes version 0 to every shard, and then version 1: a shard without a place, beside a
-- shard with version 1, has lost its data. Rows are only added, so no role needs to change one.
--
-- `slots` is the map: the name of the shard of each of the 1,024 slots, in the order of the slots. Every shard has a copy of the
-- map, and a name of its own. The slot of an organization is the remainder by which PostgreSQL itself would place the id in a table
-- partitioned by hash with 1,024 partitions.
create table business_api.shard_places (
  organization_id text collate "C" not null default '',
  name text collate "C" not null,
  version bigint not null,
  slots text[] not null,
  constraint shard_places_pkey primary key (organization_id, version),
  constraint shard_places_organization_id_check check (organization_id = ''),
  constraint shard_places_slots_check check (cardinality(slots) = 1024 and array_position(slots, null) is null)
);

-- Returns the place: the stored one, or `first`, which is stored if there is none of its version or a higher one; null for neither.
create function business_api.shard_place(first jsonb) returns jsonb
  language plpgsql volatile
  set search_path = ''
as $$
declare
  given bigint := (first -> 'version')::bigint;
begin
  if first ->> 'name' is not null and not exists (select from business_api.shard_places p where p.version >= given) then
    insert into business_api.shard_places (name, version, slots)
    select first ->> 'name', given, array(select jsonb_array_elements_text(first -> 'slots'))
    on conflict (organization_id, version) do nothing;
  end if;
  return (select jsonb_build_object('name', p.name, 'version', p.version, 'slots', p.slots)
            from business_api.shard_places p order by p.version desc limit 1);
end
$$;
