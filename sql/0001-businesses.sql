-- Businesses. Ids are ULIDs, so the primary key read backwards gives the newest first and every list is one scan of one
-- index; collation "C" compares ids as bytes. Every key begins with organization_id: the second line of tenant isolation,
-- and the column that the tables can be distributed by.
-- Locks: nothing in use; every object is new.

create table business_api.businesses (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  name text not null,
  category text,
  city text,
  email text,
  phone text,
  constraint businesses_pkey primary key (organization_id, id)
);
