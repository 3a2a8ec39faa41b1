-- This database's place among an installation's shards, and the shard map. See lib/postgres/shards/. The table is empty
-- if there are no shards. It's append-only, so no role needs to update rows. The current row for the database or an
-- organization is the one with the highest version.
--
-- Rows with an empty organization_id are about the whole database: the shard's name, and the shard of each of the 1,024
-- slots in slot order. An organization's slot is the remainder PostgreSQL would use for its ID in a table partitioned
-- by hash with 1,024 partitions. The first start writes version 0 to all shards and then version 1. A shard that has no
-- place while another one has version 1 has lost its data.
--
-- Other rows are about an organization that has left its slot's shard. They have the current shard or, if the version
-- is odd, the target of a move in progress. During a move, the organization isn't available on any shard.
create table business_api.shard_places (
  organization_id text collate "C" not null default '',
  name text collate "C" not null,
  version bigint not null,
  slots text[],
  -- If false, every statement of the organization is rejected. See ifHere() in lib/postgres/statements/here.ts.
  is_here boolean not null default true,
  -- Must match slotOf() in lib/access/slots.ts.
  slot integer not null generated always as (
    ((pg_catalog.hashtextextended(organization_id, 8816678312871386365) & 1023) + 227)::integer & 1023
  ) stored,
  constraint shard_places_pkey primary key (organization_id, version),
  constraint shard_places_slots_check check (
    case when organization_id = '' then cardinality(slots) = 1024 and array_position(slots, null) is null else slots is null end
  )
);

-- For looking up API keys by the slot that is encoded in the key.
create index shard_places_slot_idx on business_api.shard_places (slot) where organization_id <> '';

-- Fails a statement for an organization that isn't on this database. The error detail has its place as JSON.
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

-- Stores the place `first`, unless there is one with the same version, and adds the entries in `told` to the map. Returns
-- the current place, or null if there is none. `moved` has the organizations that aren't on their slot's shard, as
-- [name, version] by ID.
create function business_api.shard_place(first jsonb, told jsonb) returns jsonb
  language plpgsql volatile
  set search_path = ''
as $$
begin
  if first ->> 'name' is not null then
    insert into business_api.shard_places (name, version, slots)
    select first ->> 'name', (first -> 'version')::bigint, array(select jsonb_array_elements_text(first -> 'slots'))
    on conflict (organization_id, version) do nothing;
  end if;
  if told <> '{}' then
    insert into business_api.shard_places (organization_id, name, version, is_here)
    select t.key, t.value ->> 0, (t.value -> 1)::bigint, false from jsonb_each(told) as t
    on conflict (organization_id, version) do nothing;
  end if;
  return (
    select jsonb_build_object('name', p.name, 'version', p.version, 'slots', p.slots, 'moved', (
             select coalesce(jsonb_object_agg(m.organization_id, jsonb_build_array(m.name, m.version)), '{}') from (
               select distinct on (m.organization_id) m.* from business_api.shard_places m
                where m.organization_id <> '' order by m.organization_id, m.version desc
             ) as m
           ))
      from business_api.shard_places p where p.organization_id = '' order by p.version desc limit 1
  );
end
$$;

-- Deletes a batch of the rows that an organization left here when it moved to another shard. See
-- delete_organization_part. This is a no-op if the organization is here or moving, because these may be its only rows.
-- Copying, which may bring the organization back, takes the same lock.
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

-- Keeps an organization from being copied here until the end of the transaction, while old rows are being deleted.
create function business_api.lock_move(organization_id text) returns void
language sql volatile
set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('business_api.shard_places ' || $1, 0))
$$;
