-- Work of one organization on the node that has the organization, for a distributed database: ask_shard carries out a statement there,
-- and inserts are functions. Steps with an insertion in `with` would be sent to all nodes, one by one; a statement that calls
-- functions is carried out as a whole.
-- Locks: nothing in use; functions are added and replaced.

-- Carries out a statement of one organization, and returns the columns of its only row, as a JSON array of texts. A distributed
-- database has the node with the organization's shard carry out the call (lib/postgres/schema/distribution.ts): the statement reads and
-- writes tables of that node only, and the ids and snapshots of transactions are that node's. `given` is a JSON array of the values
-- of the parameters, at most 64, all of type text. With the caller's privileges: the statement may do what the caller may do.
-- A shard may be moved while a statement is on its way. Then the statement is undone, and the store sends it again: what a node writes
-- into the shard of another node has ids of the wrong node's transactions, and lists of changes would miss it. One look after the
-- statement is enough, because a write to this node's shard keeps the shard here until the transaction ends.
create function business_api.ask_shard(organization_id text, statement text, given text) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  values_given text[] := array(select jsonb_array_elements_text(given::jsonb));
  answer record;
  shard bigint;
begin
  execute statement into strict answer using
    values_given[1], values_given[2], values_given[3], values_given[4], values_given[5], values_given[6], values_given[7], values_given[8],
    values_given[9], values_given[10], values_given[11], values_given[12], values_given[13], values_given[14], values_given[15], values_given[16],
    values_given[17], values_given[18], values_given[19], values_given[20], values_given[21], values_given[22], values_given[23], values_given[24],
    values_given[25], values_given[26], values_given[27], values_given[28], values_given[29], values_given[30], values_given[31], values_given[32],
    values_given[33], values_given[34], values_given[35], values_given[36], values_given[37], values_given[38], values_given[39], values_given[40],
    values_given[41], values_given[42], values_given[43], values_given[44], values_given[45], values_given[46], values_given[47], values_given[48],
    values_given[49], values_given[50], values_given[51], values_given[52], values_given[53], values_given[54], values_given[55], values_given[56],
    values_given[57], values_given[58], values_given[59], values_given[60], values_given[61], values_given[62], values_given[63], values_given[64];
  -- Without a join, which would be planned each time: planning costs many times the look-up.
  shard := pg_catalog.get_shard_id_for_distribution_column('business_api.open_deliveries'::regclass, $1);
  if not exists (
    select 1 from pg_catalog.pg_dist_placement p
     where p.shardid = shard and p.groupid = (select here.groupid from pg_catalog.pg_dist_local_group here)
  ) then
    raise exception 'Cannot carry out the statement because the shard of the organization is on another node'
      using errcode = 'serialization_failure', hint = 'Send the statement to the coordinator again.';
  end if;
  return (select json_agg(c.value) from json_each_text(row_to_json(answer)) as c);
end
$$;

-- Does the same in a transaction of several statements. Only tables of the organization are read and written together; a statement
-- reads the tables with a copy on every node alone.
create function business_api.ask_shard_in_transaction(organization_id text, statement text, given text) returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  return business_api.ask_shard(organization_id, statement, given);
end
$$;

-- Keeps the shard of an organization where it is until the transaction ends. `select for update` does not: after a move to another
-- node, which nothing has locked there, the rows would be changed by two transactions. A write does, also of no row. For a function
-- whose first lock on rows is a `select for update`.
create function business_api.hold_shard(organization_id text) returns void
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  update business_api.open_deliveries d set due_at = d.due_at where d.organization_id = $1 and d.id = '';
end
$$;

-- Returns the id of the transaction on the node that carries out the statement.
create function business_api.current_xid() returns xid8
language plpgsql volatile
set search_path = ''
as $$
begin
  return pg_current_xact_id();
end
$$;

-- Names the life of a table: another server (by the identifier that a cluster gets when it is made), another timeline (a copy of an
-- earlier moment, or a standby that took over), another database, and a table that was made or filled anew, by a restore for
-- example, have other ids of transactions for other changes. Of a distributed table the shard of the organization counts: a shard that
-- was moved to another node, or back, is another table. A node without the shard gives another name each time, which no position has.
-- A hash, because nothing of the server reaches a caller.
create function business_api.life_of(organization_id text, table_name text) returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  place oid := table_name::regclass;
begin
  if to_regclass('pg_catalog.pg_dist_partition') is not null then
    execute '
      select coalesce(
        case when exists (select 1 from pg_catalog.pg_dist_partition p where p.logicalrelid = $1::regclass) then
          to_regclass(pg_catalog.shard_name($1::regclass, pg_catalog.get_shard_id_for_distribution_column($1::regclass, $2)))::oid
        else $1 end, 0)' into place using place, $1;
  end if;
  return (
    select hashtextextended(
      case when place = 0 then gen_random_uuid()::text
      else concat_ws(' ', server.system_identifier, latest.timeline_id, own.oid, pg_relation_filenode(place))
      end, 0
    )::text
    from pg_control_system() as server, pg_control_checkpoint() as latest, pg_database as own
    where own.datname = current_database()
  );
end
$$;

-- Reserves an idempotency key: see lib/postgres/statements/key-reservation.ts. Returns null if another creation or change holds the
-- key. An expired entry is taken over; an entry of this very write is an earlier attempt whose answer was lost. The primary key makes
-- a second holder of the key wait until the first has ended. A window is over by the time of `excluded`, and compared as a difference,
-- which does not depend on the time zone: a distributed database refuses every function that is not immutable in the update.
create function business_api.reserve_key(
  organization_id text, operation text, key text, fingerprint text, record_id text, reply text, window_ms double precision
) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  reserved integer;
begin
  insert into business_api.idempotency_keys as entry
    (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
  values ($1, $2, $3, $4, $5, $6, now() + $7 * interval '1 millisecond')
  on conflict (organization_id, operation, key) do update set
    fingerprint = excluded.fingerprint, record_id = excluded.record_id,
    reply = case
      when excluded.expires_at - entry.expires_at >= $7 * interval '1 millisecond' then excluded.reply else entry.reply
    end,
    expires_at = case
      when excluded.expires_at - entry.expires_at >= $7 * interval '1 millisecond' then excluded.expires_at else entry.expires_at
    end
  where excluded.expires_at - entry.expires_at >= $7 * interval '1 millisecond' or entry.record_id = excluded.record_id
  returning 1 into reserved;
  return reserved;
end
$$;

-- Inserts a business, and returns the representation, for the copy of a client that is inserted with the business. Returns null, as each
-- function that inserts a record, if the record is there already.
create function business_api.insert_business(
  organization_id text, id text, name text, category text, city text, email text, phone text
) returns text
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  inserted text;
begin
  insert into business_api.businesses
    (organization_id, id, name, category, city, email, phone, copied)
  values ($1, $2, $3, $4, $5, $6, $7, business_api.business_representation($2, $3, $4, $5, $6, $7))
  on conflict (organization_id, id) do nothing
  returning copied into inserted;
  return inserted;
end
$$;

-- Inserts a client. The copy is what insert_business has returned in this statement; null for a business that was there already.
create function business_api.insert_client(
  organization_id text, id text, business_id text, status text, total_revenue numeric, monthly_revenue numeric,
  converted_at timestamptz, business_copy text
) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.clients
    (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at, business_copy, copy_of)
  values ($1, $2, $3, $4, $5, $6, $7, $8, business_api.copy_key($1, $3))
  on conflict (organization_id, id) do nothing
  returning 1 into inserted;
  return inserted;
end
$$;

-- Inserts a lead.
create function business_api.insert_lead(
  organization_id text, id text, business_id text, stage text, lead_score numeric, score_band text, expected_value numeric,
  created_at timestamptz
) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.leads
    (organization_id, id, business_id, stage, lead_score, score_band, expected_value, created_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8)
  on conflict (organization_id, id) do nothing
  returning 1 into inserted;
  return inserted;
end
$$;

-- Inserts an invoice, and returns its number.
create function business_api.insert_invoice(
  organization_id text, id text, number text, status text, currency text, minor_units integer, issue_date timestamptz,
  due_date timestamptz, total numeric, amount_paid numeric
) returns text
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  inserted text;
begin
  insert into business_api.invoices
    (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
  on conflict (organization_id, id) do nothing
  returning number into inserted;
  return inserted;
end
$$;

-- Inserts a proposal, and returns its number.
create function business_api.insert_proposal(
  organization_id text, id text, number text, title text, status text, version integer, total numeric, monthly_total numeric,
  currency text, minor_units integer
) returns text
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  inserted text;
begin
  insert into business_api.proposals
    (organization_id, id, number, title, status, version, total, monthly_total, currency, minor_units)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
  on conflict (organization_id, id) do nothing
  returning number into inserted;
  return inserted;
end
$$;

-- Inserts a project.
create function business_api.insert_project(
  organization_id text, id text, name text, status text, billing_type text, value numeric
) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.projects
    (organization_id, id, name, status, billing_type, value)
  values ($1, $2, $3, $4, $5, $6)
  on conflict (organization_id, id) do nothing
  returning 1 into inserted;
  return inserted;
end
$$;

-- Inserts a payment. A second insertion of the same payment is an error, and has the statement sent again.
create function business_api.insert_payment(
  organization_id text, id text, invoice_id text, amount numeric, received_at timestamptz
) returns void
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into business_api.payments (organization_id, id, invoice_id, amount, received_at) values ($1, $2, $3, $4, $5);
end
$$;

-- Inserts the client that the conversion of a lead makes. A client that another conversion has made is an error, and has the
-- statement sent again. The update of the business comes first, and changes nothing that a list shows: see "Copies of businesses" in
-- 0002. While the business is outdated, the client gets no copy, because `copied` may not change without all copies; nor while another
-- transaction has locked the business, so that a conversion does not wait for SQL of the host.
create function business_api.insert_converted_client(
  organization_id text, id text, business_id text, status text, total_revenue numeric, monthly_revenue numeric,
  converted_at timestamptz
) returns void
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  copy text;
begin
  perform 1 from business_api.businesses b
    where b.organization_id = $1 and b.id = $3
      for no key update skip locked;
  if found then
    update business_api.businesses b set copied = b.representation
     where b.organization_id = $1 and b.id = $3 and (b.copied = b.representation or b.copied is null)
    returning b.copied into copy;
  end if;
  insert into business_api.clients
    (organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at, business_copy, copy_of)
  values ($1, $2, $3, $4, $5, $6, $7, copy, business_api.copy_key($1, $3));
end
$$;

-- Records a change of the developer settings. Returns null if an earlier try has recorded the change.
create function business_api.insert_audit_entry(
  organization_id text, id text, actor text, action text, subject_id text, details jsonb
) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
  values ($1, $2, clock_timestamp(), $3, $4, $5, $6)
  on conflict (organization_id, id) do nothing
  returning 1 into inserted;
  return inserted;
end
$$;

-- Adds the number of recovered deliveries to the entry of a recovery, which several statements make together. The sum is made of text,
-- because a distributed database refuses jsonb_build_object in the update: the function counts as dependent on the session.
create function business_api.count_in_audit_entry(
  organization_id text, id text, actor text, action text, subject_id text, details jsonb, recovered integer
) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into business_api.audit_entries as audit (organization_id, id, changed_at, actor, action, subject_id, details)
  values ($1, $2, clock_timestamp(), $3, $4, $5, $6 || jsonb_build_object('recovered', $7))
  on conflict (organization_id, id) do update set
    details = audit.details || (
      '{"recovered":' || ((audit.details ->> 'recovered')::int + (excluded.details ->> 'recovered')::int)::text || '}'
    )::jsonb;
  return 1;
end
$$;

-- Inserts deliveries that a recovery has taken out of the finished ones, given as JSON of their rows. Returns their number.
create function business_api.insert_reopened_deliveries(organization_id text, reopened jsonb) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  inserted integer;
begin
  insert into business_api.open_deliveries
    (organization_id, id, event_id, type, endpoint_id, due_at, created_at, attempts, attempts_before, is_backfill)
  select $1, r.id, r.event_id, r.type, r.endpoint_id, now(), r.created_at, r.attempts, r.attempts, r.is_backfill
    from jsonb_to_recordset($2)
           as r (
             id text, event_id text, type text, endpoint_id text, created_at timestamptz, attempts integer,
             is_backfill boolean
           );
  get diagnostics inserted = row_count;
  return inserted;
end
$$;

-- Inserts a delivery that was taken out of the open ones.
create function business_api.insert_cancelled_delivery(
  organization_id text, id text, event_id text, type text, endpoint_id text, created_at timestamptz, attempts integer,
  is_backfill boolean
) returns void
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into business_api.finished_deliveries
    (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at, attempts, is_backfill)
  values ($1, $2, $3, $4, $5, 'cancelled', $6, now(), $7, $8);
end
$$;

-- Sets the limit of an organization. Returns null if the organization has that limit already.
create function business_api.limit_organization(organization_id text, per_second double precision, burst integer) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  changed integer;
begin
  insert into business_api.organization_limits as present (organization_id, per_second, burst) values ($1, $2, $3)
  on conflict (organization_id) do update set per_second = excluded.per_second, burst = excluded.burst
  where (present.per_second, present.burst) <> (excluded.per_second, excluded.burst)
  returning 1 into changed;
  return changed;
end
$$;

-- Makes the buckets of a key and of its organization, full. Returns the number of buckets that were missing.
create function business_api.make_buckets(organization_id text, key_id text) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  name text;
  made integer := 0;
  inserted integer;
begin
  -- One statement each: a distributed database carries out a row of values at once, and plans a set of rows.
  foreach name in array array[$2, 'organization'] loop
    insert into business_api.rate_buckets (organization_id, bucket, full_at) values ($1, name, 0)
    on conflict do nothing
    returning 1 into inserted;
    made := made + coalesce(inserted, 0);
  end loop;
  return made;
end
$$;

-- Makes sure that the present day has its tables, and tries to make those of the next days two days ahead of time, because the host's
-- transaction that makes the tables may stay open for hours. A session that knows of the present day's tables does not ask again
-- between day_known_from and day_known_until, ten minutes later or the end of the day: texts that are compared with the ids of
-- deliveries. A clock that goes back makes the session ask again.
create function business_api.ensure_day(at_time timestamptz) returns void
language plpgsql volatile
set search_path = ''
as $$
declare
  digits text collate "C" := business_api.delivery_digits(at_time);
  day record;
begin
  select d.ends into day from business_api.event_days d
   where d.organization_id = '' and d.begins <= digits and d.ends > digits and d.dropped_at is null;
  if not found then
    perform business_api.make_days();
    return;
  end if;
  -- Of a distributed table the coordinator makes the days: its loops do.
  if to_regclass('pg_catalog.pg_dist_partition') is null and business_api.days_end(at_time) < at_time + interval '48 hours' then
    perform business_api.make_days_ahead();
  end if;
  perform set_config('business_api.day_known_from', digits, false);
  perform set_config(
    'business_api.day_known_until', least(day.ends, business_api.delivery_digits(at_time + interval '10 minutes') collate "C"), false
  );
end
$$;

-- Inserts events with one delivery for each endpoint of the organization that wants the type: open, or skipped at once for a
-- disabled endpoint, so that the delivery can be recovered later. An event without `hasNewId` may have been
-- published before: an existing id keeps the first event, and nothing is sent again. An id that was made for the event is not
-- looked up. Returns the number of open deliveries. The ids of all deliveries share one timestamp, which is also the created_at,
-- because the log finds a period by the ids. The function of 0028 stands in for this one while an installation with data is moved.
create or replace function business_api.insert_events(organization_id text, events jsonb) returns bigint
language plpgsql volatile
set search_path = ''
as $$
declare
  written bigint;
  at_time timestamptz := clock_timestamp();
  digits text := business_api.delivery_digits(at_time);
  given record;
  max_bytes integer;
  first_end text;
  -- The endpoints, read once for both kinds of deliveries.
  endpoint_ids text[];
  endpoint_types text[];
  are_disabled boolean[];
  place integer;
  -- For each place in the call: true for a new event with an id of the host's own. Not an array of such places: a plan that is made
  -- once compares every place with each element.
  are_new boolean[];
begin
  -- One statement, because this function runs for every event, and each further statement is felt.
  select bool_or(strpos(e.body, E'"\\u0000') > 0) as has_placeholder, max(octet_length(e.body)) as bytes,
         bool_or(e."hasNewId" is not true) as has_own_ids
    into given
    from jsonb_to_recordset($2) as e (body text, "hasNewId" boolean);
  if given.has_placeholder then
    raise exception 'Cannot insert an event because a placeholder is left in its body';
  end if;
  if given.bytes > 65536 then
    -- The default applies if row level security hides the row.
    max_bytes := coalesce((select l.max_body_bytes from business_api.event_limits l where l.organization_id = ''), 262144);
    if given.bytes > max_bytes then
      raise exception 'Cannot publish % because its body has % bytes, and an event may have %',
        (
          select e.type from jsonb_to_recordset($2) as e (type text, body text) order by octet_length(e.body) desc limit 1
        ), given.bytes, max_bytes
        using errcode = 'invalid_parameter_value', constraint = 'event_limits_max_body_bytes',
              hint = 'Publish an id with which subscribers can fetch the rest.';
    end if;
  end if;
  if (
    digits >= current_setting('business_api.day_known_from', true) collate "C"
    and digits < current_setting('business_api.day_known_until', true) collate "C"
  ) is not true then
    perform business_api.ensure_day(at_time);
  end if;
  if given.has_own_ids then
    first_end := business_api.first_day_end();
    are_new := array_fill(false, array[jsonb_array_length($2)]);
    for place in
      insert into business_api.event_ids as i (organization_id, id, delivery_prefix)
      select $1, e.value ->> 'id', digits || upper(lpad(to_hex(e.number), 5, '0'))
        from jsonb_array_elements($2) with ordinality as e (value, number)
       where e.value -> 'hasNewId' is distinct from 'true'
      on conflict do nothing
      returning ('x' || lpad(right(i.delivery_prefix, 5), 8, '0'))::bit(32)::integer
    loop
      are_new[place] := true;
    end loop;
    if first_end is not null and true = any (are_new) then
      for place in
        select e.number from jsonb_array_elements($2) with ordinality as e (value, number)
         where are_new[e.number] and exists (
           select 1 from business_api.events known
            where known.organization_id = $1 and known.id = e.value ->> 'id' and known.delivery_prefix < first_end
         )
      loop
        are_new[place] := false;
      end loop;
    end if;
  end if;

  insert into business_api.events (organization_id, id, type, created_at, body, traceparent, delivery_prefix)
  select $1, e.id, e.type, e."createdAt", e.body, e.traceparent, digits || upper(lpad(to_hex(e.number), 5, '0'))
    from (
      select one.*, row_number() over () as number
        from jsonb_to_recordset($2)
               as one (
                 id text, type text, "createdAt" timestamptz, body text, traceparent text, "hasNewId" boolean
               )
    ) as e
   where e."hasNewId" or are_new[e.number];
  select array_agg(w.id), array_agg(w.types::text), array_agg(w.state = 'disabled') into endpoint_ids, endpoint_types, are_disabled
    from business_api.webhook_endpoints w
   where w.organization_id = $1 and w.state <> 'removed';
  if endpoint_ids is null then
    return 0;
  end if;
  insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at, created_at)
  select $1, digits || upper(lpad(to_hex(e.number), 5, '0')) || upper(lpad(to_hex(w.number), 5, '0')), e.id, e.type, w.id,
         at_time, at_time
    from (
      select one.*, row_number() over () as number
        from jsonb_to_recordset($2) as one (id text, type text, "hasNewId" boolean)
    ) as e
    join unnest(endpoint_ids, endpoint_types, are_disabled) with ordinality as w (id, types, is_disabled, number)
      on w.types is null or e.type = any (w.types::text[])
   where (e."hasNewId" or are_new[e.number]) and not w.is_disabled;
  get diagnostics written = row_count;
  if true = any (are_disabled) then
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, reason, created_at, finished_at)
    select $1, digits || upper(lpad(to_hex(e.number), 5, '0')) || upper(lpad(to_hex(w.number), 5, '0')), e.id, e.type, w.id,
           'skipped', 'endpoint_disabled', at_time, at_time
      from (
        select one.*, row_number() over () as number
          from jsonb_to_recordset($2) as one (id text, type text, "hasNewId" boolean)
      ) as e
      join unnest(endpoint_ids, endpoint_types, are_disabled) with ordinality as w (id, types, is_disabled, number)
        on w.types is null or e.type = any (w.types::text[])
     where (e."hasNewId" or are_new[e.number]) and w.is_disabled;
  end if;
  return written;
end
$$;
