-- Returns a hash that identifies a table for syncing clients, which read records in the order of the transactions that
-- changed them (changed_xid). Transaction IDs are meaningless on another server (identified by when it was
-- initialized), timeline (after a restore to an earlier time or a standby's promotion) or database, or if the table was
-- recreated or refilled, and the hash differs in all of these cases. The values are hashed because callers must not
-- learn anything about the server.
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
