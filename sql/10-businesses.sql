-- Businesses. Ids are ULIDs: the primary key read backwards gives the newest record first, and every list is one scan of one
-- index. Collation "C" compares ids as bytes. Every key begins with organization_id, the second line of tenant
-- isolation.

-- Every record is stored together with its representation: the JSON text that the API shows. The text is a generated column,
-- and therefore right for every row, also for a row written by SQL; a list only joins texts. The functions of the
-- representations are declared immutable although to_json and to_char are only stable, because texts, numerics, integers and
-- timestamps in UTC are written alike under all settings of a session.

-- Writes the representation of a business.
create function business_api.business_representation(
  id text, name text, category text, city text, email text, phone text
) returns text
language plpgsql immutable
set search_path = ''
as $$
begin
  return '{"id":' || to_json(id)::text
    || ',"name":' || to_json(name)::text
    || ',"category":' || coalesce(to_json(category)::text, 'null')
    || ',"city":' || coalesce(to_json(city)::text, 'null')
    || ',"email":' || coalesce(to_json(email)::text, 'null')
    || ',"phone":' || coalesce(to_json(phone)::text, 'null')
    || '}';
end
$$;

-- Returns whether a business differs from the copies of its representation: see "Copies of businesses" in 11-clients.sql. Null: no copy
-- was made. The cost makes every plan that calls the function more expensive than a plan that uses the index below, also while the tables have no
-- statistics: the predicate of the index answers the condition, so that the function is not called.
create function business_api.is_outdated(representation text, copied text) returns boolean
language plpgsql immutable parallel safe
cost 1000000
set search_path = ''
as $$
begin
  return coalesce(representation <> copied, false);
end
$$;

create table business_api.businesses (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  category text,
  city text,
  email text,
  phone text,
  -- The ids of the record's latest changes, newest first. A change that is sent again because the answer was lost finds its id
  -- here, also after a few other changes. Other tables have the same column for the same purpose.
  latest_changes text[] collate "C" not null default '{}',
  representation text not null
    generated always as (business_api.business_representation(id, name, category, city, email, phone)) stored,
  -- The representation that every copy of the business has; null: there is no copy. SQL by hand leaves the column as it is.
  copied text,
  constraint businesses_pkey primary key (organization_id, id)
);

-- The businesses that were changed by hand since they were copied. Normally there are none, and a list of clients reads an empty
-- index.
create index businesses_organization_id_idx on business_api.businesses (organization_id)
  where business_api.is_outdated(representation, copied);
