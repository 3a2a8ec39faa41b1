-- Synchronization of lists. Clients read the records in the order of the transactions that changed them (changed_xid).

-- Returns a hash that identifies a table. Transaction IDs are meaningless for a table on another server (identified by
-- when it was initialized), timeline (restored to an earlier time, or a promoted standby) or database, and also if the
-- table was recreated or refilled, for example by a restore. In all of these cases the hash differs. We hash these
-- values because callers must not learn anything about the server.
create function business_api.table_identity(table_name text) returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  return (
    select hashtextextended(
      concat_ws(' ', server.system_identifier, latest.timeline_id, own.oid, pg_relation_filenode(table_name::regclass)), 0
    )::text
    from pg_control_system() as server, pg_control_checkpoint() as latest, pg_database as own
    where own.datname = current_database()
  );
end
$$;
