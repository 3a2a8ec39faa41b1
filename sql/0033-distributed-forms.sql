-- Forms that a distributed PostgreSQL takes: no function in the language SQL reads a table, no update computes a time of the
-- session's zone inside `case`, and no outer join goes from given records to a table.
-- Locks: nothing in use; functions are replaced.

-- Finds the first free number of a series after `taken`. One statement reads all numbers: a host may have imported a hundred
-- thousand numbers, and one look-up for each would take longer than a statement may.
create or replace function business_api.first_free_number(organization_id text, series text, table_name text, taken bigint)
returns bigint
language plpgsql stable
set search_path = ''
as $$
begin
  return (select min(counts.count) + 1
    from (
      select count, lead(count) over (order by count) as next
        from (
          select substr(number, length($2) + 2)::bigint as count, number
            from (
              select i.number from business_api.invoices i
               where $3 = 'business_api.invoices' and i.organization_id = $1
              union all
              select p.number from business_api.proposals p
               where $3 <> 'business_api.invoices' and p.organization_id = $1
            ) as numbers
           where left(number, length($2) + 1) = $2 || '-' and substr(number, length($2) + 2) ~ '^[0-9]{4,18}$'
        ) as given
       -- A number in another form, such as `INV-2026-00042`, takes no number of the series.
       where count >= taken and number = business_api.format_number($2, count)
    ) as counts
   where counts.next is distinct from counts.count + 1);
end
$$;

-- Returns true if an entry exists. Volatile, so that the function sees commits that happened while the calling statement waited
-- for a lock: the first try of a change that is sent again may have been committed only then.
create or replace function business_api.is_recorded(organization_id text, entry_id text) returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  return exists (
    select 1 from business_api.audit_entries e where e.organization_id = $1 and e.id = $2
  );
end
$$;

-- Makes the successor of a key: see ApiKeyStore.rotate in lib/access/api-keys.ts. A function instead of a single statement,
-- because a rotation that has waited for the key's row must see the latest commits. Returns no row for an unknown key.
create or replace function business_api.rotate_api_key(
  organization_id text, key_id text, successor jsonb, overlap_ms double precision, key_limit integer
) returns table (outcome text, is_new boolean, previous business_api.api_keys, key business_api.api_keys)
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  at_time timestamptz;
  overlap_end timestamptz;
begin
  select k.* into previous from business_api.api_keys k
   where k.organization_id = $1 and k.id = key_id
     for no key update;
  if not found then
    return;
  end if;
  perform business_api.take_settings_turn($1);

  is_new := false;
  select k.* into key from business_api.api_keys k
   where k.organization_id = $1 and k.id = successor ->> 'id';
  if found then
    outcome := case
      when previous.successor_id = key.id and key.digest = successor ->> 'digest' then 'rotated'
      else 'already_exists'
    end;
    return next;
    return;
  end if;

  -- The clock is read after the wait for the row.
  at_time := clock_timestamp();
  overlap_end := at_time + overlap_ms * interval '1 millisecond';
  if previous.successor_id is not null or previous.revoked_at <= at_time or previous.expires_at <= at_time then
    outcome := 'refused';
    return next;
    return;
  end if;
  if overlap_ms > 0 and business_api.count_api_keys_in_force($1, at_time) >= key_limit then
    outcome := 'limit_reached';
    return next;
    return;
  end if;

  outcome := 'rotated';
  is_new := true;
  insert into business_api.api_keys as k
    (organization_id, id, digest, name, scopes, prefix, last_four, per_second, burst, created_at, expires_at)
  values (
    $1, successor ->> 'id', successor ->> 'digest', previous.name, previous.scopes, successor ->> 'prefix',
    successor ->> 'lastFour', previous.per_second, previous.burst, (successor ->> 'createdAt')::timestamptz,
    case when successor ? 'expiresAt' then (successor ->> 'expiresAt')::timestamptz else previous.expires_at end
  )
  returning k.* into key;
  update business_api.api_keys k
     set successor_id = successor ->> 'id',
         revoked_at = case when overlap_ms > 0 then k.revoked_at else at_time end,
         -- The earlier expiry: `least` ignores null.
         expires_at = case
           when overlap_ms > 0 then least(k.expires_at, overlap_end)
           else k.expires_at
         end
   where k.organization_id = $1 and k.id = key_id
  returning k.* into previous;
  return next;
end
$$;

-- Imports a batch: see ImportStore.write in lib/resources/imports.ts. `records` has an array of records for each kind, and each
-- record has its place in the batch, `row`. Returns, as JSON, either `refused`, an array of rows with reasons, or `known`, an
-- object with true for each row that the organization has, and false for each row that the organization has with other values.
--
-- A function instead of a single statement, because the inserts must see the state after the wait for the series. 0016 says why
-- the planner is limited: the tables may be empty with the first batch and have millions of rows with the last.
create or replace function business_api.import_records(organization_id text, records jsonb) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  known jsonb;
  businesses jsonb := (
    select coalesce(jsonb_object_agg(g ->> 'id', g), '{}') from jsonb_array_elements(records -> 'business') as g
  );
  invoices jsonb := (
    select coalesce(jsonb_object_agg(g ->> 'id', g), '{}') from jsonb_array_elements(records -> 'invoice') as g
  );
  payment_ids text[] := array(select g ->> 'id' from jsonb_array_elements(records -> 'payment') as g);
  kept_businesses jsonb;
  -- The copies for new clients, by the ids of the businesses.
  copies jsonb;
  taken text[];
  kept_invoices jsonb;
  refused jsonb;
  expected bigint;
  inserted bigint;
  written bigint := 0;
  moved record;
begin
  -- Locked in the order of the names, before anything is read: a number that another transaction is giving out is then visible.
  insert into business_api.number_series as s (organization_id, series, last)
  select $1, g.series, 0
    from jsonb_to_recordset((records -> 'invoice') || (records -> 'proposal')) as g (series text)
   where g.series is not null
   group by g.series
   order by g.series
  on conflict (organization_id, series) do update set last = s.last;

  -- Locked for the same reason: the payments of an invoice are added up.
  perform 1 from business_api.invoices i
    where i.organization_id = $1
      and i.id = any (array(select g ->> 'invoiceId' from jsonb_array_elements(records -> 'payment') as g))
    order by i.id for update;

  select coalesce(jsonb_object_agg(k.row, k.is_same), '{}') into known from (
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'business')
             as g (row integer, id text, name text, category text, city text, email text, phone text)
      cross join lateral (
        select b.representation = business_api.business_representation(
                 g.id, g.name, g.category, g.city, g.email, g.phone
               ) as is_same
          from business_api.businesses b where b.organization_id = $1 and b.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'client')
             as g (
               row integer, id text, "businessId" text, status text, "totalRevenue" numeric, "monthlyRevenue" numeric,
               "convertedAt" timestamptz
             )
      cross join lateral (
        select c.business_id = g."businessId" and c.representation = business_api.client_representation(
                 g.id, g.status, g."totalRevenue", g."monthlyRevenue", g."convertedAt"
               ) as is_same
          from business_api.clients c where c.organization_id = $1 and c.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'lead')
             as g (
               row integer, id text, "businessId" text, stage text, "leadScore" numeric, "scoreBand" text,
               "expectedValue" numeric, "createdAt" timestamptz
             )
      cross join lateral (
        select l.business_id = g."businessId" and l.representation = business_api.lead_representation(
                 g.id, g.stage, g."leadScore", g."scoreBand", g."expectedValue", g."createdAt"
               ) as is_same
          from business_api.leads l where l.organization_id = $1 and l.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'proposal')
             as g (
               row integer, id text, number text, title text, status text, version integer, total numeric,
               "monthlyTotal" numeric, currency text, "signedBy" text, "signedAt" timestamptz
             )
      cross join lateral (
        select p.signed_by is not distinct from g."signedBy" and p.signed_at is not distinct from g."signedAt"
               and p.representation = business_api.proposal_representation(
                 g.id, g.number, g.title, g.status, g.version, g.total, g."monthlyTotal", g.currency
               ) as is_same
          from business_api.proposals p where p.organization_id = $1 and p.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'invoice')
             as g (
               row integer, id text, number text, status text, currency text, "minorUnits" integer,
               "issueDate" timestamptz, "dueDate" timestamptz, total numeric, "amountPaid" numeric
             )
      cross join lateral (
        select i.representation = business_api.invoice_representation(
                 g.id, g.number, g.status, g.currency, g."minorUnits", g."issueDate", g."dueDate", g.total, g."amountPaid"
               ) as is_same
          from business_api.invoices i where i.organization_id = $1 and i.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'payment')
             as g (row integer, id text, "invoiceId" text, amount numeric, "receivedAt" timestamptz)
      cross join lateral (
        select p.invoice_id = g."invoiceId" and p.amount = g.amount and p.received_at = g."receivedAt" as is_same
          from business_api.payments p where p.organization_id = $1 and p.id = g.id
         limit 1
      ) as kept
    union all
    select g.row, kept.is_same
      from jsonb_to_recordset(records -> 'project')
             as g (row integer, id text, name text, status text, "billingType" text, value numeric)
      cross join lateral (
        select p.representation = business_api.project_representation(
                 g.id, g.name, g.status, g."billingType", g.value
               ) as is_same
          from business_api.projects p where p.organization_id = $1 and p.id = g.id
         limit 1
      ) as kept
  ) as k;

  -- A new payment of an invoice that differs is left out with the invoice.
  select known || coalesce(jsonb_object_agg(g.row, false), '{}') into known
    from jsonb_to_recordset(records -> 'payment') as g (row integer, "invoiceId" text)
   where not known ? g.row::text and known ->> (invoices #>> array[g."invoiceId", 'row']) = 'false';

  -- Look-ups of their own, because a distributed database refuses an outer join from the records to a table.
  select coalesce(jsonb_object_agg(g.id, true), '{}') into kept_businesses
    from (
      select distinct r."businessId" as id
        from jsonb_to_recordset((records -> 'client') || (records -> 'lead')) as r ("businessId" text)
    ) as g
    cross join lateral (
      select 1 as one from business_api.businesses b where b.organization_id = $1 and b.id = g.id
       limit 1
    ) as kept;
  select coalesce(jsonb_object_agg(g.id, jsonb_build_object(
           'minorUnits', kept.minor_units, 'amountPaid', kept.amount_paid, 'paid', kept.paid
         )), '{}')
    into kept_invoices
    from (
      select distinct r."invoiceId" as id from jsonb_to_recordset(records -> 'payment') as r ("invoiceId" text)
    ) as g
    cross join lateral (
      select i.minor_units, i.amount_paid, (
               select sum(other.amount) from business_api.payments other
                where other.organization_id = $1 and other.invoice_id = i.id and not other.id = any (payment_ids)
             ) as paid
        from business_api.invoices i where i.organization_id = $1 and i.id = g.id
       limit 1
    ) as kept;

  -- Another transaction may have written the same records since: each condition leaves the ids of the batch out.
  select jsonb_agg(jsonb_build_object('row', r.row, 'reason', r.reason) order by r.row) into refused from (
    select all_reasons.row, min(all_reasons.reason) as reason from (
      select g.row, 'no_business' as reason
        from jsonb_to_recordset((records -> 'client') || (records -> 'lead')) as g (row integer, "businessId" text)
       where not known ? g.row::text and not kept_businesses ? g."businessId" and not businesses ? g."businessId"
      union all
      select g.row, 'business_taken'
        from jsonb_to_recordset(records -> 'client') as g (row integer, id text, "businessId" text)
        cross join lateral (
          select c.id from business_api.clients c where c.organization_id = $1 and c.business_id = g."businessId"
           limit 1
        ) as kept
       where not known ? g.row::text and kept.id <> g.id
      union all
      select g.row, 'number_taken'
        from jsonb_to_recordset(records -> 'proposal') as g (row integer, id text, number text)
        cross join lateral (
          select p.id from business_api.proposals p where p.organization_id = $1 and p.number = g.number
           limit 1
        ) as kept
       where not known ? g.row::text and kept.id <> g.id
      union all
      select g.row, 'number_taken'
        from jsonb_to_recordset(records -> 'invoice') as g (row integer, id text, number text)
        cross join lateral (
          select i.id from business_api.invoices i where i.organization_id = $1 and i.number = g.number
           limit 1
        ) as kept
       where not known ? g.row::text and kept.id <> g.id
      union all
      select p.row, case
               when p.minor_units is null then 'no_invoice'
               when p.amount <> round(p.amount, p.minor_units) then 'too_fine'
               else 'overpaid'
             end
        from (
          select g.row, g.amount,
                 coalesce(
                   (kept_invoices #>> array[g."invoiceId", 'minorUnits'])::integer,
                   (invoices #>> array[g."invoiceId", 'minorUnits'])::integer
                 ) as minor_units,
                 coalesce(
                   (kept_invoices #>> array[g."invoiceId", 'amountPaid'])::numeric,
                   (invoices #>> array[g."invoiceId", 'amountPaid'])::numeric
                 ) as amount_paid,
                 coalesce((kept_invoices #>> array[g."invoiceId", 'paid'])::numeric, 0) + sum(g.amount) filter (where coalesce((known ->> g.row::text)::boolean, true))
                   over (partition by g."invoiceId") as paid
            from jsonb_to_recordset(records -> 'payment') as g (row integer, "invoiceId" text, amount numeric)
        ) as p
       where not known ? p.row::text
         and (p.minor_units is null or p.amount <> round(p.amount, p.minor_units) or p.paid > p.amount_paid)
    ) as all_reasons
    group by all_reasons.row
  ) as r;
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;

  -- The rows are counted from `returning`, because the row count of a distributed insert includes the conflicts.
  with added as (
    insert into business_api.businesses (organization_id, id, name, category, city, email, phone, copied)
    select $1, g.id, g.name, g.category, g.city, g.email, g.phone,
           business_api.business_representation(g.id, g.name, g.category, g.city, g.email, g.phone)
      from jsonb_to_recordset(records -> 'business')
             as g (row integer, id text, name text, category text, city text, email text, phone text)
     where not known ? g.row::text
    on conflict do nothing
    returning id, copied
  )
  select count(*), coalesce(jsonb_object_agg(id, copied), '{}') into inserted, copies from added;
  written := written + inserted;

  -- The businesses of new clients that exist already are updated as a conversion does: see "Copies of businesses" in 0002. The client of
  -- a business that another transaction has locked gets no copy, so that an import does not wait for SQL of the host.
  taken := array(
    select distinct g."businessId" from jsonb_to_recordset(records -> 'client') as g (row integer, "businessId" text)
     where not known ? g.row::text and kept_businesses ? g."businessId"
  );
  taken := array(
    select b.id from business_api.businesses b
     where b.organization_id = $1 and b.id = any (taken)
       for no key update skip locked
  );
  with held as (
    update business_api.businesses b set copied = b.representation
     where b.organization_id = $1 and b.id = any (taken) and (b.copied = b.representation or b.copied is null)
    returning b.id, b.copied
  )
  select copies || coalesce(jsonb_object_agg(h.id, h.copied), '{}') into copies from held h;

  with added as (
    insert into business_api.clients
      (
        organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at, business_copy, copy_of
      )
    select $1, g.id, g."businessId", g.status, g."totalRevenue", g."monthlyRevenue", g."convertedAt",
           copies ->> g."businessId", business_api.copy_key($1, g."businessId")
      from jsonb_to_recordset(records -> 'client')
             as g (
               row integer, id text, "businessId" text, status text, "totalRevenue" numeric, "monthlyRevenue" numeric,
               "convertedAt" timestamptz
             )
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.leads
      (organization_id, id, business_id, stage, lead_score, score_band, expected_value, created_at)
    select $1, g.id, g."businessId", g.stage, g."leadScore", g."scoreBand", g."expectedValue", g."createdAt"
      from jsonb_to_recordset(records -> 'lead')
             as g (
               row integer, id text, "businessId" text, stage text, "leadScore" numeric, "scoreBand" text,
               "expectedValue" numeric, "createdAt" timestamptz
             )
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.proposals
      (
        organization_id, id, number, title, status, version, total, monthly_total, currency, minor_units, signed_by, signed_at
      )
    select $1, g.id, g.number, g.title, g.status, g.version, g.total, g."monthlyTotal", g.currency, g."minorUnits",
           g."signedBy", g."signedAt"
      from jsonb_to_recordset(records -> 'proposal')
             as g (
               row integer, id text, number text, title text, status text, version integer, total numeric,
               "monthlyTotal" numeric, currency text, "minorUnits" integer, "signedBy" text, "signedAt" timestamptz
             )
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.invoices
      (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
    select $1, g.id, g.number, g.status, g.currency, g."minorUnits", g."issueDate", g."dueDate", g.total, g."amountPaid"
      from jsonb_to_recordset(records -> 'invoice')
             as g (
               row integer, id text, number text, status text, currency text, "minorUnits" integer,
               "issueDate" timestamptz, "dueDate" timestamptz, total numeric, "amountPaid" numeric
             )
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.payments (organization_id, id, invoice_id, amount, received_at)
    select $1, g.id, i.id, round(g.amount, i.minor_units), g."receivedAt"
      from jsonb_to_recordset(records -> 'payment')
             as g (row integer, id text, "invoiceId" text, amount numeric, "receivedAt" timestamptz)
      cross join lateral (
        select i.id, i.minor_units from business_api.invoices i where i.organization_id = $1 and i.id = g."invoiceId"
         limit 1
      ) as i
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  with added as (
    insert into business_api.projects (organization_id, id, name, status, billing_type, value)
    select $1, g.id, g.name, g.status, g."billingType", g.value
      from jsonb_to_recordset(records -> 'project')
             as g (row integer, id text, name text, status text, "billingType" text, value numeric)
     where not known ? g.row::text
    on conflict do nothing
    returning 1
  )
  select count(*) into inserted from added;
  written := written + inserted;

  select count(*) into expected
    from jsonb_each(records) as kind, jsonb_array_elements(kind.value) as g
   where not known ? (g ->> 'row');
  if written <> expected then
    -- Another transaction wrote one of the ids or numbers first: the batch is sent again, and then sees the record.
    raise exception 'Cannot import the records because another transaction wrote one of them first'
      using errcode = 'serialization_failure';
  end if;

  -- One series a statement: a distributed database refuses the join of an update to a set of records.
  for moved in
    select g.series, max(g.count) as count
      from jsonb_to_recordset((records -> 'invoice') || (records -> 'proposal'))
             as g (row integer, series text, count bigint)
     where g.series is not null and not known ? g.row::text
     group by g.series
  loop
    update business_api.number_series s set last = greatest(s.last, moved.count)
     where s.organization_id = $1 and s.series = moved.series;
  end loop;
  return jsonb_build_object('known', known);
end
$$;
