-- Backfills: an event for each record that existed before an endpoint did, to that endpoint only. The work is done in bounded
-- parts, one statement each. The ids of the events are made from endpoint, type and record, so that a part that is done again
-- writes nothing, and a backfill that was interrupted is resumed by doing all of it again.
-- Locks: nothing in use; every object is new.

-- Returns the moment in a record's id, `<kind>_<ulid>`; null for an id of another form, as imported records may have.
create function business_api.id_time(id text) returns timestamptz
language sql immutable
set search_path = ''
as $$
  select case when id ~ '_[0-7][0-9A-HJKMNP-TV-Z]{25}$' then to_timestamp((
    select sum(
      (strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(right(id, 26), place, 1)) - 1)::bigint << (5 * (10 - place))
    ) from generate_series(1, 10) as place
  ) / 1000.0) end
$$;

-- Reads the next records with an event of a type, in the order of the ids: the representation of each, and its business.
create function business_api.backfill_records(organization_id text, type text, after_id text, record_limit integer)
returns table (id text, business_id text, representation text)
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  if $2 = 'business.created' then
    return query
      select r.id, r.id, r.representation from business_api.businesses r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  elsif $2 = 'client.created' then
    return query
      select r.id, r.business_id, left(r.representation, -1) || ',"business":' || b.representation || '}'
        from (
          select c.organization_id, c.id, c.business_id, c.representation from business_api.clients c
           where c.organization_id = $1 and c.id > $3 order by c.id limit $4
        ) as r
        join business_api.businesses b on b.organization_id = r.organization_id and b.id = r.business_id;
  elsif $2 = 'lead.created' then
    return query
      select r.id, r.business_id, r.representation from business_api.leads r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  elsif $2 = 'proposal.created' then
    return query
      select r.id, null::text, r.representation from business_api.proposals r
       where r.organization_id = $1 and r.id > $3 order by r.id limit $4;
  else
    raise exception 'Cannot backfill % because no record has such an event', $2 using errcode = 'invalid_parameter_value';
  end if;
end
$$;
