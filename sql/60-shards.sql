-- The place of this database among the shards of an installation: a single row for the whole database, which the first process of a
-- sharded store writes (lib/postgres/shards/). Without shards the table is empty, and no statement reads it.
--
-- `slots` is the map: the name of the shard of each of the 1,024 slots, in the order of the slots. Every shard has a copy of the
-- map, and a name of its own. The slot of an organization is the remainder by which PostgreSQL itself would place the id in a table
-- partitioned by hash with 1,024 partitions.
create table business_api.shard_places (
  organization_id text collate "C" not null default '',
  name text collate "C" not null,
  version bigint not null,
  slots text[] not null,
  constraint shard_places_pkey primary key (organization_id),
  constraint shard_places_organization_id_check check (organization_id = ''),
  constraint shard_places_slots_check check (cardinality(slots) = 1024 and array_position(slots, null) is null)
);

-- Returns the place: the stored one, else `first`, which is stored then; null for neither.
create function business_api.shard_place(first jsonb) returns jsonb
  language plpgsql volatile
  set search_path = ''
as $$
begin
  if first ->> 'name' is not null and not exists (select from business_api.shard_places) then
    insert into business_api.shard_places (name, version, slots)
    select first ->> 'name', (first -> 'version')::bigint, array(select jsonb_array_elements_text(first -> 'slots'))
    on conflict (organization_id) do nothing;
  end if;
  return (select jsonb_build_object('name', p.name, 'version', p.version, 'slots', p.slots)
            from business_api.shard_places p);
end
$$;
