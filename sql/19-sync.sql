-- Synchronization of lists: a client reads the records in the order of the transactions that changed them (changed_xid).

-- Returns a name for the identity of a table. Transaction ids say nothing about a table of another server (identified when the
-- server was initialized), timeline (a copy of an earlier moment, or a promoted standby) or database, nor about a table that was
-- created or filled anew, for example by a restore: each has another name. A hash, because nothing about the server may reach a caller.
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
