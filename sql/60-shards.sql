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
