-- Checks the rows from before the days, so that 0030-partitions.sql need not read them under its lock.
-- Locks: business_api.events, business_api.finished_deliveries and business_api.delivery_attempts are read from end to end, while
-- everything but other changes of the schema and vacuums goes on.

alter table business_api.events validate constraint events_first_check;
alter table business_api.finished_deliveries validate constraint finished_deliveries_first_check;
alter table business_api.delivery_attempts validate constraint delivery_attempts_first_check;
