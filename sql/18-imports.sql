-- Imports: records that exist already, with ids and dates that the host chose.

-- Imports a batch: see ImportStore.write in lib/resources/imports.ts. `records` has an array of records for each kind, and each
-- record has its place in the batch, `row`. `steps` has the statements that differ by the columns of a kind: lib/postgres/imports.ts. Returns, as JSON, either `refused`, an array of rows with reasons, or `known`, an
-- object with true for each row that the organization has, and false for each row that the organization has with other values.
--
-- A function instead of a single statement, because the inserts must see the state after the wait for the series.
create function business_api.import_records(organization_id text, records jsonb, steps jsonb) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  known jsonb := '{}';
  step text;
  found_rows jsonb;
  businesses jsonb := (
    select coalesce(jsonb_object_agg(g ->> 'id', g), '{}') from jsonb_array_elements(records -> 'business') as g
  );
  invoices jsonb := (
    select coalesce(jsonb_object_agg(g ->> 'id', g), '{}') from jsonb_array_elements(records -> 'invoice') as g
  );
  payment_ids text[] := array(select g ->> 'id' from jsonb_array_elements(records -> 'payment') as g);
  stored_businesses jsonb;
  stored_invoices jsonb;
  refused jsonb;
  expected bigint;
  inserted bigint;
  written bigint := 0;
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

  for step in select jsonb_array_elements_text(steps -> 'compare') loop
    execute step into found_rows using $1, records;
    known := known || coalesce(found_rows, '{}');
  end loop;

  -- A new payment of an invoice that differs is left out with the invoice.
  select known || coalesce(jsonb_object_agg(g.row, false), '{}') into known
    from jsonb_to_recordset(records -> 'payment') as g (row integer, "invoiceId" text)
   where not known ? g.row::text and known ->> (invoices #>> array[g."invoiceId", 'row']) = 'false';

  select coalesce(jsonb_object_agg(g.id, true), '{}') into stored_businesses
    from (
      select distinct r."businessId" as id
        from jsonb_to_recordset((records -> 'client') || (records -> 'lead')) as r ("businessId" text)
    ) as g
    cross join lateral (
      select 1 as one from business_api.businesses b where b.organization_id = $1 and b.id = g.id
       limit 1
    ) as stored;
  select coalesce(jsonb_object_agg(g.id, jsonb_build_object(
           'minorUnits', stored.minor_units, 'amountPaid', stored.amount_paid, 'paid', stored.paid
         )), '{}')
    into stored_invoices
    from (
      select distinct r."invoiceId" as id from jsonb_to_recordset(records -> 'payment') as r ("invoiceId" text)
    ) as g
    cross join lateral (
      select i.minor_units, i.amount_paid, (
               select sum(other.amount) from business_api.payments other
                where other.organization_id = $1 and other.invoice_id = i.id and not other.id = any (payment_ids)
                  and other.amount > 0 and other.reversed_by is null
             ) as paid
        from business_api.invoices i where i.organization_id = $1 and i.id = g.id
       limit 1
    ) as stored;

  -- Another transaction may have written the same records since: each condition leaves the ids of the batch out.
  select jsonb_agg(jsonb_build_object('row', r.row, 'reason', r.reason) order by r.row) into refused from (
    select all_reasons.row, min(all_reasons.reason) as reason from (
      select g.row, 'no_business' as reason
        from jsonb_to_recordset((records -> 'client') || (records -> 'lead')) as g (row integer, "businessId" text)
       where not known ? g.row::text and not stored_businesses ? g."businessId" and not businesses ? g."businessId"
      union all
      select g.row, 'business_taken'
        from jsonb_to_recordset(records -> 'client') as g (row integer, id text, "businessId" text)
        cross join lateral (
          select b.client_id as id from business_api.businesses b where b.organization_id = $1 and b.id = g."businessId"
           limit 1
        ) as stored
       where not known ? g.row::text and stored.id <> g.id
      union all
      select g.row, 'number_taken'
        from jsonb_to_recordset(records -> 'proposal') as g (row integer, id text, number text)
        cross join lateral (
          select p.id from business_api.proposals p where p.organization_id = $1 and p.number = g.number
           limit 1
        ) as stored
       where not known ? g.row::text and stored.id <> g.id
      union all
      select g.row, 'number_taken'
        from jsonb_to_recordset(records -> 'invoice') as g (row integer, id text, number text)
        cross join lateral (
          select i.id from business_api.invoices i where i.organization_id = $1 and i.number = g.number
           limit 1
        ) as stored
       where not known ? g.row::text and stored.id <> g.id
      union all
      select p.row, case
               when p.minor_units is null then 'no_invoice'
               when p.amount <> round(p.amount, p.minor_units) then 'too_fine'
               else 'overpaid'
             end
        from (
          select g.row, g.amount,
                 coalesce(
                   (stored_invoices #>> array[g."invoiceId", 'minorUnits'])::integer,
                   (invoices #>> array[g."invoiceId", 'minorUnits'])::integer
                 ) as minor_units,
                 coalesce(
                   (stored_invoices #>> array[g."invoiceId", 'amountPaid'])::numeric,
                   (invoices #>> array[g."invoiceId", 'amountPaid'])::numeric
                 ) as amount_paid,
                 coalesce((stored_invoices #>> array[g."invoiceId", 'paid'])::numeric, 0) + sum(g.amount)
                   filter (where coalesce((known ->> g.row::text)::boolean, true) and g.amount > 0 and g."reversedBy" is null)
                   over (partition by g."invoiceId") as paid
            from jsonb_to_recordset(records -> 'payment') as g (row integer, "invoiceId" text, amount numeric, "reversedBy" text)
        ) as p
       where not known ? p.row::text
         and (p.minor_units is null or p.amount <> round(p.amount, p.minor_units) or p.paid > p.amount_paid)
    ) as all_reasons
    group by all_reasons.row
  ) as r;
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;

  for step in select jsonb_array_elements_text(steps -> 'write') loop
    execute step using $1, records, known;
    get diagnostics inserted = row_count;
    written := written + inserted;
  end loop;

  select count(*) into expected
    from jsonb_each(records) as kind, jsonb_array_elements(kind.value) as g
   where not known ? (g ->> 'row');
  if written <> expected then
    -- Another transaction wrote one of the ids or numbers first: the batch is sent again, and then sees the record.
    raise exception 'Cannot import the records because another transaction wrote one of them first'
      using errcode = 'serialization_failure';
  end if;

  update business_api.number_series s set last = greatest(s.last, g.count)
    from (
      select m.series, max(m.count) as count
        from jsonb_to_recordset((records -> 'invoice') || (records -> 'proposal')) as m (row integer, series text, count bigint)
       where m.series is not null and not known ? m.row::text
       group by m.series
    ) as g
   where s.organization_id = $1 and s.series = g.series;
  return jsonb_build_object('known', known);
end
$$;
select business_api.forbid_plans('import_records');
