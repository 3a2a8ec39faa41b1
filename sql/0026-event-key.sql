--! concurrent
-- The key that events have once the table is partitioned by day (0030-partitions.sql): a key of a partitioned table holds the
-- column of the partitions.
-- Locks: business_api.events is read while the index is built; nothing waits.

create unique index concurrently events_first_pkey on business_api.events (organization_id, id, delivery_prefix);
