-- What the host does with records once they exist: who changed them last, payments, signatures, numbers in series, and
-- the events of all that.

-- The ids of the last changes of a record, newest first: a change whose answer was lost and that is sent again knows
-- itself by it, also when a few others came between.
alter table business_api.clients add column latest_changes text[] collate "C" not null default '{}';
alter table business_api.leads add column latest_changes text[] collate "C" not null default '{}';
alter table business_api.proposals
  add column latest_changes text[] collate "C" not null default '{}',
  add column signed_by text,
  -- Decimals of the currency; prices of before are kept as fine as they are.
  add column minor_units smallint not null default 3,
  add column signed_at timestamptz,
  add constraint proposals_minor_units_check check (minor_units between 0 and 4),
  add constraint proposals_signed_at_check check ((signed_by is null) = (signed_at is null));
alter table business_api.invoices add column latest_changes text[] collate "C" not null default '{}';
alter table business_api.projects add column latest_changes text[] collate "C" not null default '{}';

-- What may be overdue, of all organizations: the part of the invoices that are open and not marked yet.
create index invoices_due_date_idx on business_api.invoices (due_date) where status in ('issued', 'partially_paid');
create index invoices_organization_id_due_date_idx
  on business_api.invoices (organization_id, due_date) where status in ('issued', 'partially_paid');

create table business_api.payments (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  invoice_id text collate "C" not null,
  amount numeric not null,
  received_at timestamptz not null,
  constraint payments_pkey primary key (organization_id, id),
  constraint payments_amount_check check (amount > 0),
  constraint payments_organization_id_invoice_id_fkey
    foreign key (organization_id, invoice_id) references business_api.invoices (organization_id, id)
);

create index payments_organization_id_invoice_id_idx on business_api.payments (organization_id, invoice_id);

-- Not a sequence of PostgreSQL: what one of those has given is gone, also when the transaction is rolled back, and the
-- numbers of invoices must have no gaps.
create table business_api.number_series (
  organization_id text collate "C" not null,
  series text collate "C" not null,
  last bigint not null,
  constraint number_series_pkey primary key (organization_id, series)
);

-- A number of a series: at least four digits.
create function business_api.format_number(series text, count bigint) returns text
language sql immutable
set search_path = ''
as $$ select series || '-' || lpad(count::text, greatest(4, length(count::text)), '0') $$;

-- The next number of a series that no record of its kind has; a record that is there already keeps its own. The series
-- stays locked until the transaction ends: only so can a number that is rolled back be given to the next one.
create function business_api.next_number(organization_id text, series text, table_name text, record_id text) returns text
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  counted bigint;
  known text;
  is_taken boolean;
begin
  insert into business_api.number_series as s (organization_id, series, last) values ($1, $2, 0)
  on conflict (organization_id, series) do update set last = s.last
  returning last into counted;
  -- Only now: what another attempt of this very creation has written is visible to the statements that follow.
  known := case table_name
    when 'business_api.invoices' then (select i.number from business_api.invoices i where i.organization_id = $1 and i.id = $4)
    else (select p.number from business_api.proposals p where p.organization_id = $1 and p.id = $4)
  end;
  if known is not null then
    return known;
  end if;
  counted := counted + 1;
  is_taken := case table_name
    when 'business_api.invoices' then exists (
      select from business_api.invoices i
       where i.organization_id = $1 and i.number = business_api.format_number($2, counted)
    )
    else exists (
      select from business_api.proposals p
       where p.organization_id = $1 and p.number = business_api.format_number($2, counted)
    )
  end;
  if is_taken then
    counted := business_api.first_free_number($1, $2, $3, counted);
  end if;
  update business_api.number_series s set last = counted where s.organization_id = $1 and s.series = $2;
  return business_api.format_number($2, counted);
end
$$;

-- The first number of a series after `taken` that nobody has. In one look: a host may have brought a hundred thousand
-- numbers of its own, and one look for each of them would take longer than a statement may.
create function business_api.first_free_number(organization_id text, series text, table_name text, taken bigint)
returns bigint
language sql stable
set search_path = ''
as $$
  select min(count) + 1
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
       -- Another form of a number, `INV-2026-00042`, is not in its way.
       where count >= taken and number = business_api.format_number($2, count)
    ) as counts
   where next is distinct from count + 1
$$;

-- Fills in the blanks of a JSON text: see lib/blanks.ts. A blank is a JSON string that begins with NUL, which no text
-- that is stored can contain, so nothing else in a JSON text can look like one.
create function business_api.fill(template text, record json, more json default '{}') returns text
language plpgsql immutable
set search_path = ''
as $$
declare
  filled text := template;
  value record;
begin
  for value in
    select f.key, f.value::text as text from json_each(more) f
    union all select '', record::text
    union all select f.key, f.value::text from json_each(record) f
  loop
    -- E'…': the same whatever standard_conforming_strings is in a host's transaction.
    filled := replace(filled, E'"\\u0000' || value.key || '"', value.text);
  end loop;
  return filled;
end
$$;

-- The same for the bodies of events.
create function business_api.fill_events(events jsonb, record json, more json default '{}') returns jsonb
language sql immutable
set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_set(e.event, '{body}', to_jsonb(business_api.fill(e.event ->> 'body', record, more))) order by e.position
    ),
    '[]'
  )
  from jsonb_array_elements(events) with ordinality as e (event, position)
$$;
